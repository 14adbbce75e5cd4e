"""Group → kernel plan: loops, contractions, attention, and what a launch needs to know of each."""

from anyshape.kernels.plan import Launch, Plan, PlanTable, plan_group
from anyshape.kernels.products import PackedOperand

__all__ = ["Launch", "PackedOperand", "Plan", "PlanTable", "plan_group"]
