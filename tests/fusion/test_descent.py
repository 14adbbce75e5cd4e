"""Dependences of groups that are kept while groups merge are those that walking the graph finds."""

import random

import pytest
from xdsl.ir import SSAValue

from anyshape.dialects.dhlo import Add, DotGeneral, Tanh, Transpose
from anyshape.dialects.dhlo.graph import FunctionBuilder
from anyshape.fusion import Decision, decide_fusion
from anyshape.fusion.descent import Descent
from anyshape.fusion.groups import reaches, users_of
from anyshape.symbolic import Size

M = Size.symbol("m")


def _check_all_pairs(descent: Descent, decision: Decision) -> int:
    """How many groups depend on another."""
    found = 0
    for other in decision.groups:
        users = [user for value in other.outputs for user in users_of(value)]
        for group in decision.groups:
            expected = reaches(users, group, decision, itself=True)
            assert descent.depends(group, other) == expected
            found += expected
    return found


@pytest.mark.parametrize("seed", range(6))
def test_pairs_before_and_after_merging(seed: int) -> None:
    choose = random.Random(seed)
    g = FunctionBuilder()
    values: list[SSAValue] = [g.input(M, M), g.input(M, M)]
    for _ in range(24):
        x, y = choose.choice(values), choose.choice(values)
        match choose.randrange(4):
            case 0:
                values.append(g(Tanh, x))
            case 1:
                values.append(g(Add, x, y))
            case 2:
                values.append(g(Transpose, x, permutation=(1, 0)))
            case _:
                values.append(g(DotGeneral, x, y, lhs_contract=(1,), rhs_contract=(0,)))
    func = g.finish(*values[-4:])
    decision = decide_fusion(func)
    descent = Descent(decision, func.body.block.ops)
    assert len(decision.groups) > 4 and _check_all_pairs(descent, decision) > 4
    merged = 0
    for group in list(decision.groups):
        home = next((each for each in decision.groups if each is not group and not _joined(descent, each, group)), None)
        if home is not None and merged < 3:
            home.outputs.extend(value for value in group.outputs if value not in home.outputs)
            decision.absorb(group, home)
            descent.merge(group, home)
            merged += 1
            _check_all_pairs(descent, decision)
    assert merged


def _joined(descent: Descent, one: object, other: object) -> bool:
    return descent.depends(one, other) or descent.depends(other, one)  # pyright: ignore[reportArgumentType]
