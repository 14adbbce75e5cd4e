"""F17: an index out of range is an error that names index and bound, for every way to index, and nothing is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from anyshape.support.errors import IndexOutOfRange
from tests.end_to_end.eager import check, compiled

WAYS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select 1": lambda x, i: x.index_select(1, i),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "index": lambda x, i: x[i],
    "index 1": lambda x, i: x[:, i],
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])),
    "fused": lambda x, i: (x.index_select(0, i) * 2).exp().sum(-1),
}
COUNTS_FROM_THE_END = {"index", "index 1"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32], ids=str)
def test_index_and_bound(way: str, index_dtype: torch.dtype) -> None:
    if index_dtype == torch.int32 and way == "gather":
        return  # PyTorch takes 64-bit indices only
    f = WAYS[way]
    program = compiled(f, torch.randn(5, 5), torch.tensor([0, 1, 2], dtype=index_dtype))
    for bound in (2, 7):
        x = torch.randn(bound, bound)
        wrong = [bound, bound + 100, -bound - 1] + ([] if way in COUNTS_FROM_THE_END else [-1])
        for index in wrong:
            with pytest.raises(IndexOutOfRange) as raised:
                program(x, torch.tensor([0, index, 1], dtype=index_dtype))
            assert f"index {index} is out of range [0, {bound})" in str(raised.value)
        check(program, f, x, torch.tensor([1, 0], dtype=index_dtype))
        if way in COUNTS_FROM_THE_END:
            check(program, f, x, torch.tensor([-1, -bound], dtype=index_dtype))


def test_an_empty_axis_has_no_valid_index() -> None:
    program = compiled(WAYS["index_select"], torch.randn(5, 5), torch.tensor([0, 1, 2]))
    with pytest.raises(IndexOutOfRange):
        program(torch.empty(0, 3), torch.tensor([0]))
    check(program, WAYS["index_select"], torch.empty(0, 3), torch.empty(0, dtype=torch.int64))
    check(program, WAYS["index_select"], torch.randn(3, 0), torch.tensor([2, 0]))
