"""A cache whose length has a simpler form by the facts is still the argument that is written in place: readers take the other form."""

from __future__ import annotations

from anyshape.dialects.dhlo import DynamicUpdateSlice
from tests.passes.programs import apply, assert_same, parse

N, M, PART = (f"tensor<?x4xf32, #dhlo.dims<[{size}]>>" for size in ("n + 2", "m + 2", "n"))
PROGRAM = f"""
func.func @main(%0: {N}, %1: {M}, %2: {PART}) -> ({N}, {M})
    attributes {{dhlo.facts = [#dhlo.relation<"m == n">], dhlo.updates = array<i64: 0, 0>}} {{
  %3 = dhlo.dynamic_update_slice %0, %2 {{starts = #dhlo.dims<[0, 0]>}} : ({N}, {PART}) -> {N}
  %4 = dhlo.dynamic_update_slice %3, %2 {{starts = #dhlo.dims<[1, 0]>}} : ({N}, {PART}) -> {N}
  %5 = dhlo.reshape %4 {{sizes = #dhlo.dims<[m + 2, 4]>}} : ({N}) -> {M}
  %6 = dhlo.add %5, %1 : ({M}, {M}) -> {M}
  func.return %4, %6 : {N}, {M}
}}
"""


def test_the_argument_itself_is_written() -> None:
    before, module = parse(PROGRAM), parse(PROGRAM)
    for name in ("simplify", "cse", "simplify", "dce", "update-in-place"):
        apply(name, module)
    module.verify()
    updates = [op for op in module.walk() if isinstance(op, DynamicUpdateSlice)]
    assert len(updates) == 2
    assert all("in_place" in op.attributes for op in updates)
    assert_same(before, module)
