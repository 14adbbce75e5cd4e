"""Whether a product should compute its left factor itself.

A row that several threads multiply, each with other columns, is computed by each of them. That is so where a launch has fewer row blocks
than threads; at more rows every row is computed once, and only the launch and the way through memory are saved. So the price is
at most, as a share of the product's time on all threads,

    (copies − 1) · (time of computing a row) / (time of multiplying it on one core),    copies = min(threads, panels)

and does not depend on the number of rows, nor on K, which is a factor of both times. A prologue is refused where that is more than `MOST`.
"""

from __future__ import annotations

from anyshape.dialects.dhlo import DotGeneral, Reduce
from anyshape.dialects.tile import ContractOp
from anyshape.fusion import Proposal
from anyshape.fusion.roles import cost_of, domain_of
from anyshape.kernels.products import is_tiled
from anyshape.support.machine import Machine

MOST = 1 / 32
"""What a prologue may cost at the fewest rows; about what it saves at many."""
USUAL_COLUMNS = 512
"""Columns of a product whose number of columns is not known."""


def why_no_prologue(proposal: Proposal, machine: Machine) -> str | None:
    """None when the prologue pays on that machine, else the reason why not."""
    if isinstance(proposal.dot, DotGeneral) and not is_tiled(proposal.dot):
        return "there are no register tiles for the product's element types"
    columns = proposal.matrices.n.constant_or(USUAL_COLUMNS)
    copies = min(machine.threads, -(-columns // ContractOp.PANEL))
    if copies <= 1:
        return None
    computed = operations_of_an_element(proposal) * machine.rates.simple / machine.f32_lanes
    multiplied = 2 * columns / machine.rates.fma
    share = (copies - 1) * computed / multiplied
    if share <= MOST:
        return None
    return (
        f"{copies} threads would each compute a row that they share, {share:.0%} of the time in which they multiply it"
    )


def operations_of_an_element(proposal: Proposal) -> int:
    """Simple operations on one element of a row, loads and the store counted."""
    row = domain_of(proposal.rows)
    inside = [op for op in proposal.maker.ops if op.results and domain_of(op.results[0]) == row]
    folds = sum(isinstance(op, Reduce) for op in proposal.maker.ops)
    loads = sum(domain_of(value) == row for value in proposal.maker.inputs)
    return sum(map(cost_of, inside)) + 2 * folds + loads + 1


__all__ = ["MOST", "operations_of_an_element", "why_no_prologue"]
