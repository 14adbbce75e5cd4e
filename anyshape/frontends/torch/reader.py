"""How RAL reads PyTorch's tensors: an address, sizes, strides and a count of writes, at some nanoseconds each."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

from anyshape.runtime.abi import TensorReaderLayout
from anyshape.support.errors import ArtifactError

# A tensor object is the fixed part of every Python object, then the handle that PyTorch's C interface takes.
_HANDLE = object.__basicsize__
_GETTERS = {"data": "data_ptr", "rank": "dim", "sizes": "sizes", "strides": "strides", "dtype": "dtype"}
_VERSION = "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE"
_TENSOR_WORDS, _STORAGE_WORDS = 24, 4
"""8-byte words of the objects of tensors and storages among which theirs are looked for; no release has had smaller ones."""
_ROUNDS = 32
"""How often words are compared."""
_COUNTER_BYTES = 32
"""Where in its object the counter of writes is looked for."""


@dataclass(frozen=True)
class TensorReader:
    """`ral_tensor_reader` of this process's PyTorch."""

    layout: TensorReaderLayout

    @property
    def address(self) -> int:
        return ctypes.addressof(self.layout)


@cache
def tensor_reader() -> TensorReader:
    """The reader, after a look at tensors whose addresses and versions are known.

    Raises:
        ArtifactError: this PyTorch's tensors lie otherwise in memory.
    """
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    path = Path(torch.__file__).parent / "lib" / f"libtorch_cpu{suffix}"
    try:
        library = ctypes.CDLL(str(path))
        getters = {field: getattr(library, f"aoti_torch_get_{name}") for field, name in _GETTERS.items()}
        version = getattr(library, _VERSION)
    except (OSError, AttributeError) as error:
        raise _unknown_build(error) from error
    # The first call may come while something is traced or runs without versions: what is looked at are plain tensors all the same.
    with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
        probes = (_zeros(2), nn.Parameter(_zeros(3)))
        handles = [ctypes.c_void_p.from_address(id(probe) + _HANDLE).value for probe in probes]
        if handles != [probe._cdata for probe in probes]:
            raise _unknown_build("another layout of tensor objects")
        layout = TensorReaderLayout(handle_offset=_HANDLE, version_offset=_version_offset(version))
        for field, function in {**getters, "version": version}.items():
            setattr(layout, field, ctypes.cast(function, ctypes.c_void_p))
        _find_words(layout, version)
    return TensorReader(layout)


def _zeros(size: int) -> torch.Tensor:
    """A tensor in CPU memory, whatever the caller's defaults are."""
    return torch.zeros(size, dtype=torch.float32, device="cpu")


def _find_words(layout: TensorReaderLayout, counter_of: ctypes._NamedFuncPointer) -> None:  # pyright: ignore[reportPrivateUsage]
    """Where tensors' own objects say how they lie; what is not found as expected is left out, and read by PyTorch's functions.

    Views of one buffer that differ in one thing show where that thing is: in the first word that differs in every round, and that equal
    views have in common in one at least. Behind the object lies other memory, and in it are bytes that nobody sets: both differ by
    chance.
    """
    buffer = _zeros(1 << 16)
    sizes, strides = (2, 3, 2, 3, 2), (2000, 300, 50, 7, 2)
    kept: list[torch.Tensor] = []  # so that every view has memory of its own
    steady = set[int]()
    found = [set(range(_TENSOR_WORDS)) for _ in range(2 + 2 * len(sizes))]
    for _ in range(_ROUNDS):
        one, same = (buffer.as_strided(sizes, strides) for _ in range(2))
        different = [one.as_strided(sizes, strides, 1), one.view(torch.int32)]
        for axis in range(len(sizes)):
            more = tuple(int(each == axis) for each in range(len(sizes)))
            different.append(one.as_strided([a + b for a, b in zip(sizes, more, strict=True)], strides))
            different.append(one.as_strided(sizes, [a + b for a, b in zip(strides, more, strict=True)]))
        kept += (one, same, *different)
        words = _words_of(one)
        steady |= {at for at, (a, b) in enumerate(zip(words, _words_of(same), strict=True)) if a == b}
        for where, other in zip(found, different, strict=True):
            where &= {at for at, (a, b) in enumerate(zip(words, _words_of(other), strict=True)) if a != b}
    found = [where & steady for where in found]
    one, words = kept[0], _words_of(kept[0])
    storage = buffer.untyped_storage()
    handle = storage._cdata  # pyright: ignore[reportPrivateUsage]
    first = [at for at in steady if words[at] == handle]
    memory = [at for at in range(_STORAGE_WORDS) if _word(handle, at) == storage.data_ptr()]
    counter = counter_of(id(one) + _HANDLE) - one._cdata
    if not all(found) or not first or not memory or not 8 * first[0] <= counter < 8 * _TENSOR_WORDS:
        return
    if min(map(min, found)) <= first[0]:
        return
    layout.first, layout.last = 8 * first[0], 8 * max(counter // 8, *map(min, found)) + 8
    layout.memory_offset, layout.counter_offset, layout.inline_rank = 8 * memory[0], counter, len(sizes)


def _word(address: int, at: int) -> int:
    return ctypes.c_uint64.from_address(address + 8 * at).value


def _words_of(tensor: torch.Tensor) -> list[int]:
    return [_word(tensor._cdata, at) for at in range(_TENSOR_WORDS)]


def _version_offset(counter_of: ctypes._NamedFuncPointer) -> int:  # pyright: ignore[reportPrivateUsage]
    """Where the counter lies in the object that counts writes, found by two numbers that are nowhere else."""
    counter_of.restype, counter_of.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    probe = _zeros(1)
    offsets = set(range(0, _COUNTER_BYTES, 4))
    for number in (0x12345, 0x6789A):
        torch._C._autograd._unsafe_set_version_counter((probe,), (number,))  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        counter = ctypes.c_void_p.from_address(counter_of(id(probe) + _HANDLE)).value
        if counter is None:
            raise _unknown_build("a tensor without a version")
        offsets &= {at for at in offsets if ctypes.c_uint32.from_address(counter + at).value == number}
    with torch.inference_mode():
        unversioned = _zeros(1)
    if len(offsets) != 1 or ctypes.c_void_p.from_address(counter_of(id(unversioned) + _HANDLE)).value is not None:
        raise _unknown_build("another way to count versions")
    return offsets.pop()


def _unknown_build(got: object) -> ArtifactError:
    return ArtifactError(
        "live weights cannot be watched with this build of PyTorch", got=f"PyTorch {torch.__version__}: {got}",
        expected="the release that anyshape was made for", remedy="install anyshape[torch]",
    )  # fmt: skip


__all__ = ["TensorReader", "tensor_reader"]
