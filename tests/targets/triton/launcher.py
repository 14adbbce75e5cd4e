"""Runs kernels in Triton's interpreter on numpy arrays with guards around them. Import it with TRITON_INTERPRET=1 set."""

import importlib.util
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from anyshape.targets.triton import TritonKernel

GUARD = 4096
"""Elements on either side of a buffer that a kernel must neither change nor be changed by."""

_SCRATCH = {"*fp32": np.float32, "*i1": np.bool_}
_modules = itertools.count()


def load(kernel: TritonKernel, directory: Path) -> ModuleType:
    """The module written to a file and imported: Triton reads a kernel's source from its file."""
    name = f"kernel_{next(_modules)}"
    path = directory / f"{name}.py"
    path.write_text(kernel.source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Guarded:
    """A buffer between guards, as much of a tensor as Triton's interpreter asks for."""

    def __init__(self, array: np.ndarray[Any, Any], poison: float) -> None:
        self._whole = np.full(array.size + 2 * GUARD, poison).astype(array.dtype)
        self.array = self._whole[GUARD : GUARD + array.size]
        self.array[:] = array.reshape(-1)
        self._before = self._whole.copy()
        self.dtype = "bool" if array.dtype == np.bool_ else array.dtype.name

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def guards_hold(self) -> bool:
        """Whether nothing was written outside the buffer."""
        sides = (slice(None, GUARD), slice(len(self._whole) - GUARD, None))
        return all(self._whole[side].tobytes() == self._before[side].tobytes() for side in sides)

    def untyped_storage(self) -> "Guarded":
        return self

    def cpu(self) -> "Guarded":
        return self

    def new_empty(self, *_: object, **__: object) -> "Guarded":
        return self

    def set_(self, *_: object) -> None:
        """The interpreter's copy on the host is the buffer itself."""

    def copy_(self, _: object) -> None:
        """The interpreter copies back what never was elsewhere."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return (1,)


def launch(
    kernel: TritonKernel,
    module: ModuleType,
    buffers: Sequence[np.ndarray[Any, Any]],
    sizes: Mapping[str, int],
    constants: Mapping[str, Any],
    poison: float,
) -> list[np.ndarray[Any, Any]]:
    """The buffers, flat, after a launch on copies; what lies around them, and scratch, is filled with `poison`."""
    assert os.environ.get("TRITON_INTERPRET") == "1"
    given = iter(buffers)
    guarded: list[Guarded] = []
    arguments: list[object] = []
    for each in kernel.parameters:
        match each.role:
            case "buffer":
                guarded.append(Guarded(next(given), poison))
                arguments.append(guarded[-1])
            case "scratch":
                assert each.elements is not None
                guarded.append(Guarded(np.full(each.elements.evaluate(sizes), poison, _SCRATCH[each.type]), poison))
                arguments.append(guarded[-1])
            case "size":
                arguments.append(sizes[each.name])
            case _:
                arguments.append(constants[each.name])
    programs = kernel.programs(sizes, constants)
    if programs:
        getattr(module, kernel.name)[(programs,)](*arguments)
    assert all(each.guards_hold() for each in guarded), "a kernel wrote outside a buffer"
    return [each.array for each in guarded[: len(buffers)]]
