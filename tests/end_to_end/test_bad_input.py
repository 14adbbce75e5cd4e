"""Calls and models that cannot work: each gets a typed error that says where and what, and the next good call works."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import anyshape
from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.driver.api import CompiledModule
from anyshape.runtime import torch_adaptor
from anyshape.runtime.loader import Program, runtime
from anyshape.support.errors import (
    AnyshapeError,
    ArgumentError,
    DtypeError,
    GuardError,
    IndexOutOfRange,
    RankError,
    UnsupportedOps,
)
from tests.end_to_end.eager import assert_same, check, compiled

VOCABULARY, WIDTH = 40, 16


class Encoder(nn.Module):
    """Embeds tokens, adds a vector for each, and projects."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.project = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, tokens: torch.Tensor, extra: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return self.project(self.table(tokens) * scale + extra)


def arguments(batch: int = 3, length: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(batch * length).reshape(batch, length) % VOCABULARY, torch.randn(batch, length, WIDTH)


@pytest.fixture(scope="module")
def encoder() -> tuple[CompiledModule, Encoder]:
    module = Encoder()
    return compiled(module, *arguments()), module


TOKENS, EXTRA = arguments()
BAD_CALLS: list[tuple[str, type[AnyshapeError], tuple[Any, ...], dict[str, Any], list[str]]] = [
    ("dtype", DtypeError, (TOKENS.float(), EXTRA), {}, ["args[0]", "i64", "f32"]),
    ("narrow dtype", DtypeError, (TOKENS, EXTRA.half()), {}, ["args[1]", "f32", "f16"]),
    ("no program dtype", DtypeError, (TOKENS, EXTRA.to(torch.complex128)), {}, ["args[1]", "torch.complex128"]),
    ("rank", RankError, (TOKENS[0], EXTRA), {}, ["args[0]", "1", "2"]),
    ("rank 0", RankError, (TOKENS, torch.tensor(1.0)), {}, ["args[1]", "0", "3"]),
    ("fixed size", GuardError, (TOKENS, EXTRA[..., :-1]), {}, ["args[1]", "axis 2", "15", "16"]),
    ("sizes that differ", GuardError, (TOKENS, EXTRA[:, :-1]), {}, ["args[1]", "axis 1", "3", "4"]),
    ("another batch", GuardError, (TOKENS[:-1], EXTRA), {}, ["args[1]", "axis 0", "3", "2"]),
    ("index too large", IndexOutOfRange, (TOKENS + VOCABULARY, EXTRA), {}, ["40"]),
    ("index negative", IndexOutOfRange, (TOKENS - 1, EXTRA), {}, ["-1", "40"]),
    ("missing", ArgumentError, (TOKENS,), {}, ["extra"]),
    ("unexpected", ArgumentError, (TOKENS, EXTRA), {"other": EXTRA}, ["other"]),
    ("too many", ArgumentError, (TOKENS, EXTRA, 2.0, 1), {}, ["forward"]),
    ("twice", ArgumentError, (TOKENS, EXTRA), {"tokens": TOKENS}, ["tokens"]),
    ("another constant", ArgumentError, (TOKENS, EXTRA), {"scale": 3.0}, ["scale"]),
    ("no tensor", ArgumentError, (TOKENS, 1.5), {}, ["args[1]", "float"]),
    ("nested", ArgumentError, ([TOKENS], EXTRA), {}, ["args[0]", "list"]),
    ("None", ArgumentError, (TOKENS, None), {}, []),
    ("an array", ArgumentError, (TOKENS, EXTRA.numpy()), {}, ["args[1]", "ndarray"]),
    ("another device", ArgumentError, (TOKENS, EXTRA.to("meta")), {}, ["args[1]", "meta"]),
    ("sparse", ArgumentError, (TOKENS, EXTRA.to_sparse()), {}, ["args[1]", "torch.sparse_coo"]),
]


@pytest.mark.parametrize(
    ("kind", "args", "kwargs", "words"), [call[1:] for call in BAD_CALLS], ids=[call[0] for call in BAD_CALLS]
)
def test_bad_call(
    encoder: tuple[CompiledModule, Encoder],
    kind: type[AnyshapeError],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    words: list[str],
) -> None:
    program, module = encoder
    with pytest.raises(kind) as raised:
        program(*args, **kwargs)
    for word in words:
        assert re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", str(raised.value)), (
            f"{word!r} is not in: {raised.value}"
        )
    check(program, module, *arguments(2, 5))


def test_arguments_by_position_or_name(encoder: tuple[CompiledModule, Encoder]) -> None:
    program, module = encoder
    expected = module(TOKENS, EXTRA).detach()
    for args, kwargs in (
        ((TOKENS,), {"extra": EXTRA}),
        ((), {"extra": EXTRA, "tokens": TOKENS}),
        ((TOKENS, EXTRA, 2.0), {}),
        ((TOKENS, EXTRA), {"scale": 2.0}),
    ):
        assert_same(program(*args, **kwargs), expected)


# -- indices ------------------------------------------------------------------------------------------------------------


def survives(work: Callable[[], None]) -> None:
    """Runs `work` in a child process, so that a read of forbidden memory is a failure and not the end of the suite."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"the call died of {signal.Signals(os.WTERMSIG(status)).name}"
    assert os.WEXITSTATUS(status) == 0


def fenced(array: np.ndarray[Any, Any], *, at_end: bool) -> tuple[int, mmap.mmap]:
    """A copy of the array that ends, or begins, next to pages that cannot be read; the address, and the memory's owner."""
    page = mmap.PAGESIZE
    body = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, body + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = base + page + (body - array.nbytes if at_end else 0)
    ctypes.memmove(start, array.ctypes.data, array.nbytes)
    library = ctypes.CDLL(None, use_errno=True)
    for fence in (base, base + page + body):
        assert library.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(page), 0) == 0, ctypes.get_errno()
    return start, memory


@pytest.mark.parametrize("at_end", [False, True], ids=["begins", "ends"])
def test_an_index_out_of_range_reads_nothing(encoder: tuple[CompiledModule, Encoder], at_end: bool) -> None:
    """The table lies between forbidden pages: whoever reads before the check dies."""
    program, module = encoder
    expected = module(*arguments(2, 5))

    def work() -> None:
        built = program.built
        code = LoadedCode(list(built.objects.values()), runtime().symbols)
        tables = [fenced(array, at_end=at_end) for array in built.constants.arrays(code)]
        fresh = Program(code.address(DESCRIPTOR), [address for address, _ in tables], 1, owner=(code, tables))
        extra = torch.zeros(1, 37, WIDTH)
        for wrong in (VOCABULARY, -1, 2**31, -(2**31), 2**40, 2**62, -(2**63)):
            for place in (0, 17, 36):
                tokens = torch.zeros(1, 37, dtype=torch.int64)
                tokens[0, place] = wrong
                with pytest.raises(IndexOutOfRange, match=rf"{wrong}\b.*\b{VOCABULARY}\b"):
                    torch_adaptor.run(fresh, [tokens, extra])

    survives(work)
    assert_same(program(*arguments(2, 5))[..., :0], expected[..., :0].detach())


def test_the_error_names_index_bound_and_source_line(encoder: tuple[CompiledModule, Encoder]) -> None:
    tokens = TOKENS.clone()
    tokens[1, 2] = 77
    with pytest.raises(IndexOutOfRange, match=r"77\b.*\b40\b") as raised:
        encoder[0](tokens, EXTRA)
    assert isinstance(raised.value, IndexError)
    assert "test_bad_input.py" in str(raised.value)


# -- models -------------------------------------------------------------------------------------------------------------


class Unsupported(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.linalg.matrix_exp(x)  # first
        b = torch.igammac(x.abs(), x.abs())  # second
        c = torch.igamma(x.abs(), x.abs())  # third
        return a.sum() + b.sum() + c.sum() + torch.linalg.matrix_exp(x + 1).sum()  # fourth


def test_one_error_lists_every_unsupported_op() -> None:
    with pytest.raises(UnsupportedOps) as raised:
        anyshape.compile(Unsupported(), (torch.randn(3, 3),))
    text = str(raised.value)
    source = Path(__file__).read_text().splitlines()
    for mark in ("first", "second", "third", "fourth"):
        line = next(number for number, row in enumerate(source, 1) if row.endswith(f"# {mark}"))
        assert f"{__file__.rsplit('/', 1)[-1]}:{line}" in text, f"{mark} is not in: {text}"
    names = {op.name for op in raised.value.ops}
    assert any("matrix_exp" in name for name in names) and any("igamma" in name for name in names), names


def test_the_compiler_still_works_after_a_refusal() -> None:
    with pytest.raises(UnsupportedOps):
        anyshape.compile(Unsupported(), (torch.randn(3, 3),))
    program = compiled(lambda x: x + 1, torch.randn(3, 3))
    check(program, lambda x: x + 1, torch.randn(4, 1))


def test_a_condition_of_the_model_is_told_in_words() -> None:
    def thirds(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] % 3 == 0)
        return x * 2

    program = compiled(thirds, torch.ones(6, 2))
    assert program.report().guards == ("d0 is a multiple of 3",)
    message = (
        "argument args[0], axis 0: got size 4; allowed only if d0 is a multiple of 3, where d0 is axis 0 of args[0]"
    )
    with pytest.raises(GuardError, match=re.escape(message)):
        program(torch.ones(4, 2))
    check(program, thirds, torch.ones(9, 2))
