"""Group → kernel plan: loops, contractions, attention, and what a launch needs to know of each."""

from anyshape.kernels.plan import Launch, Plan, PlanTable, plan_group
from anyshape.kernels.prologue_cost import why_no_prologue

__all__ = ["Launch", "Plan", "PlanTable", "plan_group", "why_no_prologue"]
