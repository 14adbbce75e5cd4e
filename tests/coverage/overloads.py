"""Which ATen overloads the coverage page is about, how each reaches the compiler, and an example call of it.

A call is one that PyTorch itself makes: OpInfo's samples are run, and what arrives at the dispatcher is kept. `calls.json` says under
which entry each overload is met, so that a call is found again without running all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.frontends.torch.builder import LOWERINGS
from anyshape.frontends.torch.capture import decompositions
from anyshape.frontends.torch.planes import COMPLEX
from tests.opinfo.programs import OPS, Call, programs_of

CALLS = Path(__file__).with_name("calls.json")
DTYPES = (
    "float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64",
)  # fmt: skip
SOURCES = ("float32", "int64", "bool", "complex64")
"""Dtypes of samples in which calls are looked for, in this order."""
SIZES_OF = ("aten.sym_size.int", "aten.sym_stride.int", "aten.sym_numel.default", "aten.sym_storage_offset.default")
"""Overloads whose results are sizes."""


def core_overloads() -> list[str]:
    """Every overload that PyTorch marks as core, as the dispatcher lists them: `torch.ops.aten` knows only what was used before."""
    registered: list[str] = torch._C._dispatch_get_all_op_names()  # pyright: ignore[reportPrivateUsage]
    names = {name.removeprefix("aten::") for name in registered if name.startswith("aten::")}
    dotted = (f"aten.{name}" if "." in name else f"aten.{name}.default" for name in sorted(names))
    return [name for name in dotted if torch.Tag.core in overload_of(name).tags]


def listed_overloads() -> list[str]:
    """The core ones, and whatever else has a lowering of its own because models bring it."""
    more = {name for name in (*LOWERINGS, *COMPLEX, *DhloOp.OVERLOADS) if name.startswith("aten.")}
    return sorted({*core_overloads(), *more})


@lru_cache(maxsize=1)
def _decomposed() -> frozenset[str]:
    return frozenset(str(overload) for overload in decompositions())


def how(overload: str) -> str:
    """`compiled` as it is, `decomposed` into others by PyTorch, `size` where the result is no tensor, or `falls back`."""
    if overload in SIZES_OF:
        return "size"
    if overload in LOWERINGS or overload in COMPLEX or overload.replace(".Scalar", ".Tensor") in DhloOp.OVERLOADS:
        return "compiled"
    return "decomposed" if overload in _decomposed() else "falls back"


def overload_of(name: str) -> OpOverload:
    """The overload that is called `aten.<packet>.<overload>`."""
    packet, overload = name.removeprefix("aten.").split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


class Recorder(TorchDispatchMode):
    """Keeps the best call of each overload that is dispatched under it: with tensors, and without sizes of 0 and 1."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, Call] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, structure = pytree.tree_flatten((args, dict(kwargs or {})))
        call = Call(tuple(leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves), structure)
        known = self.calls.get(str(func))
        if known is None or worth(call) > worth(known):
            self.calls[str(func)] = call
        return func(*args, **(kwargs or {}))


def worth(call: Call) -> tuple[bool, bool, int]:
    """How good an example a call is."""
    sizes = [size for tensor in call.tensors for size in tensor.shape]
    return bool(call.tensors), all(size > 1 for size in sizes), -abs(len(sizes) - 4)


def recorded(entry: str, dtype: str) -> dict[str, Call]:
    """What an entry of OpInfo dispatches, over the first samples of its first programs."""
    recorder = Recorder()
    for program in programs_of(entry, dtype)[:12]:
        for call in program.calls[:2]:
            try:
                with torch.no_grad(), recorder:
                    program.module(call)(*call.tensors)
            except Exception:  # an entry of another device, say: its calls until then are kept
                continue
    return recorder.calls


def find_calls() -> dict[str, list[str]]:
    """Overload -> the entry and the dtype under which it is met: its own entry if there is one, else the first."""
    wanted, found, own = set(listed_overloads()), dict[str, list[str]](), set[str]()
    for dtype in SOURCES:
        for entry in OPS:
            for overload in wanted & recorded(entry, dtype).keys():
                is_own = overload.split(".")[1] in (entry, OPS[entry].aten_name, f"nn.functional.{entry}")
                if overload not in found or (is_own and overload not in own):
                    found[overload] = [entry, dtype]
                    own |= {overload} if is_own else set()
    return dict(sorted(found.items()))


def read_calls() -> dict[str, list[str]]:
    """The checked-in result of `find_calls`."""
    return json.loads(CALLS.read_text()) if CALLS.exists() else {}


def call_of(overload: str, where: dict[str, list[str]]) -> Call | None:
    """An example call, None where OpInfo has none."""
    if overload not in where:
        return None
    return recorded(*where[overload]).get(overload)


def in_dtypes(call: Call) -> Iterator[tuple[str, Call]]:
    """The call with its tensors of numbers in every dtype in which PyTorch itself runs it."""
    kinds = {t.dtype for t in call.tensors if t.is_floating_point() or t.is_complex()}
    kinds = kinds or {t.dtype for t in call.tensors[:1]}
    for name in DTYPES:
        dtype = getattr(torch, name)

        def cast(leaf: Any, dtype: torch.dtype = dtype) -> Any:
            if isinstance(leaf, torch.Tensor):
                return leaf.detach().to(dtype) if leaf.dtype in kinds else leaf.detach().clone()
            return dtype if isinstance(leaf, torch.dtype) and leaf in kinds else leaf

        if call.tensors or name == "float32":
            yield name, call.with_leaves(cast)
