"""Graph → groups: which ops become one kernel, and why every other edge was not fused."""

from anyshape.fusion.decide import Decision, Group, decide_fusion
from anyshape.fusion.groups import Edge
from anyshape.fusion.long_rows import RowLimits, add_long_rows
from anyshape.fusion.outline import outline_groups
from anyshape.fusion.prologues import Judge, Proposal
from anyshape.fusion.results import copy_shared_results, viewed

__all__ = [
    "Decision",
    "Edge",
    "Group",
    "Judge",
    "Proposal",
    "RowLimits",
    "add_long_rows",
    "copy_shared_results",
    "decide_fusion",
    "outline_groups",
    "viewed",
]
