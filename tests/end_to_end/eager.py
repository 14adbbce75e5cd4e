"""Compares compiled modules with eager PyTorch, and watches from outside what a compiled call does."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import anyshape
from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.driver.api import CompiledModule
from anyshape.driver.build import BuiltObjects
from anyshape.runtime import torch_adaptor
from anyshape.runtime.loader import Program, runtime

# How far ours may be from eager: both round at each step, in another order.
TOLERANCES: Mapping[torch.dtype, float] = {
    torch.float64: 1e-11,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def compiled(module: nn.Module | Callable[..., Any], *args: Any, threads: int = 1, **kwargs: Any) -> CompiledModule:
    """The module, or the function, compiled from this example call."""
    if not isinstance(module, nn.Module):
        module = Calls(module)
    return anyshape.compile(module.eval(), args, kwargs, options=anyshape.Options(threads=threads))


def assert_same(got: Any, expected: Any, *, tolerance: float | None = None, message: object = "") -> None:
    """Equal structure, shapes and dtypes; NaN equals NaN; integers and bools are equal, floats within `tolerance`."""
    got_leaves, got_spec = pytree.tree_flatten_with_path(got)
    expected_leaves, expected_spec = pytree.tree_flatten_with_path(expected)
    assert got_spec == expected_spec, f"{message}: {got_spec} instead of {expected_spec}"
    for (path, ours), (_, eager) in zip(got_leaves, expected_leaves, strict=True):
        where = f"{message} {pytree.keystr(path)}"
        if not isinstance(eager, torch.Tensor):
            assert type(ours) is type(eager) and ours == eager, f"{where}: {ours!r} instead of {eager!r}"
            continue
        limit = TOLERANCES.get(eager.dtype, 0.0) if tolerance is None else tolerance
        torch.testing.assert_close(
            ours, eager, rtol=limit, atol=limit, equal_nan=True, msg=lambda text, w=where: f"{w}: {text}"
        )


def check(program: CompiledModule, module: nn.Module | Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """The compiled call gives what eager PyTorch gives."""
    with torch.no_grad():
        expected = module(*args, **kwargs)
    shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    assert_same(program(*args, **kwargs), expected, message=shapes)


class DispatchedOps(TorchDispatchMode):
    """Counts the PyTorch ops dispatched under it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def compute(self) -> Counter[str]:
        """Ops that read or write elements: neither allocation nor a view."""
        free = ("aten.empty", "aten.detach", "aten.alias", "aten.view", "aten.as_strided", "aten.new_empty")
        return Counter({name: count for name, count in self.counts.items() if not name.startswith(free)})


def loaded_again(
    built: BuiltObjects, threads: int = 1, symbols: Mapping[str, int] | None = None, owner: object = None
) -> Program:
    """The program loaded from its objects once more, against other services than RAL's where `symbols` has them."""
    code = LoadedCode(list(built.objects.values()), {**runtime().symbols, **(symbols or {})})
    return Program(code.address(DESCRIPTOR), built.constants.arrays(code), threads, owner=(code, owner))


_ARENA = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@dataclass
class ObservedProgram:
    """A compiled program loaded a second time, its calls into RAL counted on the way.

    Attributes:
        arenas: bytes of each arena that the program asked for.
        launches: kernels launched so far.
    """

    built: BuiltObjects
    threads: int = 1
    arenas: list[int] = field(default_factory=list[int])
    launches: int = 0

    def __post_init__(self) -> None:
        loaded = runtime()

        def arena(context: int, size: int) -> int | None:
            self.arenas.append(size)
            return loaded.library.ral_arena(context, size)

        def launch(*arguments: int) -> int:
            self.launches += 1
            return loaded.library.ral_launch(*arguments)

        self._callbacks = (_ARENA(arena), _LAUNCH(launch))
        addresses = [ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in self._callbacks]
        symbols = {"ral_arena": addresses[0], "ral_launch": addresses[1]}
        self.program = loaded_again(self.built, self.threads, symbols, owner=self._callbacks)

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return torch_adaptor.run(self.program, tensors)
