"""Weights that stay the user's: which of them changed since the last call, and `invalidate`."""

# PyTorch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from anyshape.dialects.dhlo import Array
from anyshape.frontends.torch.dtypes import array_of_memory
from anyshape.frontends.torch.reader import tensor_reader
from anyshape.runtime import Program, runtime
from anyshape.runtime.abi import WATCH_ROUNDS, WatchedLayout
from anyshape.support.errors import ArgumentError

SETS = 64
"""Sets of weights that a watch keeps forms of: the layers of a model that share one compiled graph are as many."""

# In CPython the items of a tuple follow its fixed part, which is all of its `__basicsize__`.
_ITEMS = tuple.__basicsize__
_ALL = (Lock(), WeakSet["WeightWatch[Any]"]())


class Binding(Protocol):
    """A program bound to one set of weights, see `anyshape.driver.live`."""

    @property
    def program(self) -> Program: ...
    @property
    def copied(self) -> frozenset[str]: ...
    @property
    def forms(self) -> Sequence[Array | None]: ...
    def refresh(self, names: Collection[str], read: Callable[[str], Array]) -> None: ...


BindingT = TypeVar("BindingT", bound=Binding)


class Live(Protocol[BindingT]):
    """A program that can be bound to weights, see `anyshape.driver.live`."""

    def bind(self, read: Callable[[str], Array], like: BindingT | None, moved: Collection[str]) -> BindingT: ...


_note = runtime().with_interpreter_lock("ral_watch_note")
_check = runtime().with_interpreter_lock("ral_watch_check")


class _Notes:
    """What a set of weights was like, before forms were made of it: who writes meanwhile is seen at the next call."""

    def __init__(self, weights: tuple[torch.Tensor, ...], *, contents: bool) -> None:
        self.count = len(weights)
        self.watched = (WatchedLayout * self.count)()
        self._sums = (ctypes.c_uint64 * (WATCH_ROUNDS * self.count))()
        self._address, self._sums_address = ctypes.addressof(self.watched), ctypes.addressof(self._sums)
        self._reader = tensor_reader().address
        self._round = 0
        items = bytes(weight.element_size() if contents else 0 for weight in weights)
        if _note(self._reader, id(weights) + _ITEMS, self.count, items, self._address, self._sums_address):
            raise ArgumentError("a weight has no memory that can be read", expected="plain tensors in CPU memory")

    @property
    def key(self) -> tuple[int, ...]:
        """Where the weights lie and how."""
        return tuple(word for each in self.watched for word in (each.data or 0, each.layout))

    def sums_of(self, index: int) -> list[int]:
        """The checksums of a weight in all rounds."""
        return self._sums[index :: self.count]

    def keep_contents_of(self, indices: Collection[int]) -> None:
        """Watch only the addresses and layouts of all others."""
        for index in range(self.count):
            if index not in indices:
                self.watched[index].bytes = 0

    def is_true_of(self, weights: tuple[torch.Tensor, ...]) -> bool:
        """Whether weights are as they were, as far as this round's samples say; objects that are no tensors are not."""
        self._round = (self._round + 1) % WATCH_ROUNDS
        return len(weights) == self.count and not _check(
            self._reader, id(weights) + _ITEMS, self.count, self._address, self._sums_address, self._round
        )


class _Bound(Generic[BindingT]):
    """A binding with what its weights were like."""

    def __init__(self, binding: BindingT, notes: _Notes, weights: Sequence[torch.Tensor]) -> None:
        self.binding = binding
        self.program = binding.program
        self.notes = notes
        self.storages = [StorageWeakRef(weight.untyped_storage()) for weight in weights]
        self.key = notes.key
        self.invalid: set[int] = set()

    def is_current(self, weights: tuple[torch.Tensor, ...]) -> bool:
        return not self.invalid and self.notes.is_true_of(weights)


class WeightWatch(Generic[BindingT]):
    """Keeps a program's forms of weights what the weights are.

    `update` looks at every weight: at its address and layout, and, where forms are kept of it, at its version and at a sample of 64
    bytes, other ones in each of 64 rounds. A changed weight gets its forms made again before the call. Weights at other addresses get
    forms of their own, so that one graph may serve many modules, and calls of several threads.

    What can be missed, until its lines come to be sampled or `invalidate` is called: writes that count no version
    (through `.data`, numpy, or to inference tensors) and change few elements of a weight with more than 4 KiB; and another
    weight in the memory of a freed one, if versions and samples are equal.

    Args:
        live: the program.
        names: the names, in the program's store, of the tensors that `update` takes, in order.
        budget: bytes of forms over all sets of weights; those used longest ago go first. None is no limit but `SETS`.
    """

    def __init__(self, live: Live[BindingT], names: Sequence[str], budget: int | None = None) -> None:
        self._live = live
        self._names = tuple(names)
        self._budget = math.inf if budget is None else budget
        self._sets: OrderedDict[tuple[int, ...], _Bound[BindingT]] = OrderedDict()
        self._last: _Bound[BindingT] | None = None
        # By the identity of their first weight, most sets are found without a look at the others; it proves nothing.
        self._by_first: WeakValueDictionary[int, _Bound[BindingT]] = WeakValueDictionary()
        self._lock = Lock()
        with _ALL[0]:
            _ALL[1].add(self)

    @property
    def copied_bytes(self) -> int:
        """Bytes of all forms that are kept, each once."""
        forms = (form for bound in self._sets.values() for form in bound.binding.forms if form is not None)
        return sum({id(form): form.nbytes for form in forms}.values())

    def update(self, tensors: Sequence[torch.Tensor]) -> Program:
        """The program on these weights as they are now. They must live until its call returns.

        Raises:
            ArgumentError: a weight is not in CPU memory, or its elements are not what its memory holds.
        """
        weights = tuple(tensors)
        last = self._last
        if last is None or not last.is_current(weights):
            with self._lock:
                last = self._last = self._bind(weights)
                self._sets.move_to_end(last.key)
        return last.program

    def invalidate(self, storages: Collection[StorageWeakRef]) -> None:
        """Make the forms of the weights in these storages again before the next call."""
        with self._lock:
            for bound in self._sets.values():
                bound.invalid.update(i for i, storage in enumerate(bound.storages) if storage in storages)

    def _bind(self, weights: tuple[torch.Tensor, ...]) -> _Bound[BindingT]:
        """The set of these weights, made or brought up to date."""
        first = id(weights[0]) if weights else 0
        near = self._by_first.get(first)
        if near is not None and near.key in self._sets and near.is_current(weights):
            return near
        self._check(weights)
        found = self._sets.get(_Notes(weights, contents=False).key)
        if found is None or not found.is_current(weights):
            found = self._brought_up_to_date(weights, found or self._last)
            self._sets[found.key] = found
            self._sets.move_to_end(found.key)
            self._forget()
        self._by_first[first] = found
        return found

    def _check(self, weights: tuple[torch.Tensor, ...]) -> None:
        if len(weights) != len(self._names):
            raise ArgumentError("wrong number of weights", got=len(weights), expected=len(self._names))
        for name, weight in zip(self._names, weights, strict=True):
            if not isinstance(weight, torch.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - it is read from C
                raise ArgumentError("a weight is no tensor", where=name, got=type(weight).__name__)
            if not weight.is_cpu or weight.layout is not torch.strided or weight.is_neg() or weight.is_conj():
                raise ArgumentError(
                    "a weight is not what its memory holds", where=name, got=f"device {weight.device}, {weight.layout}",
                    expected="a strided tensor in CPU memory that is neither negated nor conjugated when it is read",
                    remedy="convert it with `.cpu()`, `.to_dense()`, `.resolve_neg()` or `.resolve_conj()`",
                )  # fmt: skip

    def _brought_up_to_date(self, weights: tuple[torch.Tensor, ...], like: _Bound[BindingT] | None) -> _Bound[BindingT]:
        """A set that shares with `like` what did not move."""
        places = dict(zip(self._names, weights, strict=True))

        def read(name: str) -> Array:
            return array_of_memory(places[name])

        notes = _Notes(weights, contents=True)
        everything = range(len(weights))
        moved = [i for i in everything if like is None or _has_moved(i, notes, like)]
        written = [i for i in everything if like is not None and i not in moved and _is_written(i, notes, like)]
        names = {self._names[i] for i in moved}
        old = None if like is None else like.binding
        binding = self._live.bind(read, old, names) if old is None or moved else old
        binding.refresh({*names, *(self._names[i] for i in written)}, read)
        notes.keep_contents_of([i for i in everything if self._names[i] in binding.copied])
        return _Bound(binding, notes, weights)

    def _forget(self) -> None:
        """Drop sets whose weights are gone, and those used longest ago that there is no room for."""
        gone = [key for key, bound in self._sets.items() if any(map(StorageWeakRef.expired, bound.storages))]
        for key in gone:
            del self._sets[key]
        while len(self._sets) > 1 and (len(self._sets) > SETS or self.copied_bytes > self._budget):
            self._sets.popitem(last=False)


def _has_moved(index: int, notes: _Notes, like: _Bound[Any]) -> bool:
    """Whether a weight is in other memory than it was, or in memory that was freed meanwhile."""
    old, new = like.notes.watched[index], notes.watched[index]
    return old.data != new.data or old.layout != new.layout or like.storages[index].expired()


def _is_written(index: int, notes: _Notes, like: _Bound[Any]) -> bool:
    """Whether a weight that did not move has other contents than when forms were made of it, if any were."""
    old, new = like.notes.watched[index], notes.watched[index]
    if index in like.invalid:
        return True
    return old.bytes > 0 and (old.version != new.version or like.notes.sums_of(index) != notes.sums_of(index))


def invalidate(module: nn.Module) -> None:
    """Say that parameters or buffers of `module` were written in a way that PyTorch does not count.

    Every packed or derived form of them, in every program, is made again before that program's next call. Needed only after writes
    through `.data`, numpy or to inference tensors that change few elements: all others show by themselves.

    Raises:
        ArgumentError: `module` is no module.
    """
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ArgumentError(
            "only modules have weights", where="module", got=type(module).__name__, expected="a torch.nn.Module"
        )
    tensors: Iterable[torch.Tensor] = (*module.parameters(), *module.buffers())
    storages = {StorageWeakRef(tensor.untyped_storage()) for tensor in tensors}
    lock, watches = _ALL
    with lock:
        found = list(watches)
    for watch in found:
        watch.invalidate(storages)


__all__ = ["SETS", "WeightWatch", "invalidate"]
