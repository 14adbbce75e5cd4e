"""Programs whose weights belong to somebody else and may change between calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

from anyshape.codegen.llvm import LoadedCode
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.dialects.arrays import Array, ArrayType, ConstantEntry
from anyshape.driver.constants import ConstantTable, Job, fill_jobs, run_jobs
from anyshape.driver.stored import BuiltObjects
from anyshape.runtime import Program, runtime
from anyshape.support.errors import ArgumentError

Read: TypeAlias = Callable[[str], Array]
"""Gives a live array by its name in the store. It need not be dense."""

SERIAL_BYTES = 1 << 20
"""Bytes up to which forms are made by the caller alone."""


@dataclass(frozen=True)
class Binding:
    """A program bound to one set of live arrays.

    Attributes:
        program: the program that reads these arrays and their forms. Its table never changes.
        copied: the live arrays of which forms are kept: those whose contents must be watched.
        forms: for each entry of the constant table, what it is made of; None where it lies in the owner's memory.
    """

    program: Program
    copied: frozenset[str]
    forms: tuple[Array | None, ...]
    _live: LiveProgram

    @property
    def copied_bytes(self) -> int:
        """Bytes of the forms, shared ones included."""
        return sum(form.nbytes for form in self.forms if form is not None)

    def refresh(self, names: Collection[str], read: Read) -> None:
        """Make again, in place, every form that depends on one of these live arrays."""
        self._live.make_forms(self.forms, names, read)


class LiveProgram:
    """A loaded program, and the forms of live arrays that it runs on.

    An entry of its constant table that is a live array as it is points at the owner's memory, where that is dense and aligned
    to elements; all others are *forms* in memory of the program: packed, derived by a recipe, or dense copies.

    Args:
        built: the program.
        threads: threads that kernels run on and that forms are made by; 0 means one for each processor.

    Attributes:
        packed_bytes: bytes of the forms of one binding of dense arrays.
    """

    def __init__(self, built: BuiltObjects, threads: int) -> None:
        self._table: ConstantTable = built.constants
        store, entries = self._table.store, self._table.entries
        self._sources = [store.sources_of(entry.weight) for entry in entries]
        self._threads = threads
        self._code = LoadedCode(list(built.objects.values()), runtime().symbols)
        constants = [entry for entry, sources in zip(entries, self._sources, strict=True) if not sources]
        arrays = dict(zip(constants, self._table.allocate(constants), strict=True))
        run_jobs([
            job for entry in constants for job in fill_jobs(self._code, entry, store[entry.weight], arrays[entry])
        ])  # fmt: skip
        self._fixed = [arrays.get(entry) for entry in entries]
        start = [0 if array is None else array for array in self._fixed]
        self._unbound = Program(self._code.address(DESCRIPTOR), start, threads, owner=self._code)
        self._held: dict[str, Array] = {}
        self._bound: Binding | None = None
        self._lock = Lock()
        self.packed_bytes = sum(
            self._table.bytes_of(entry)
            for entry, sources in zip(entries, self._sources, strict=True)
            if sources and (entry.packed is not None or entry.weight not in store.live)
        )

    @property
    def types(self) -> Mapping[str, ArrayType]:
        """The live arrays, by name, with their types."""
        return self._table.store.live

    @property
    def program(self) -> Program:
        """The program on the arrays of the last `refresh`. Raises ArgumentError before the first."""
        if self._bound is None:
            raise ArgumentError("the program has no weights yet", remedy="call `refresh` with all of them first")
        return self._bound.program

    def refresh(self, changed: Mapping[str, Array]) -> None:
        """Run on these live arrays from now on, and on the others as they were given last. The arrays are kept.

        An array that was given before says that its contents have changed. No call may run meanwhile on an array that is replaced.

        Raises:
            ArgumentError: an array has another type than the program was built for, or one was never given.
        """
        with self._lock:
            held = {**self._held, **changed}
            moved = {name for name in changed if not _is_same_memory(self._held.get(name), changed[name])}
            if self._bound is None or moved:
                self._bound = self.bind(held.__getitem__, self._bound, moved)
            self._bound.refresh(changed.keys(), held.__getitem__)
            self._held = held

    def bind(self, read: Read, like: Binding | None, moved: Collection[str]) -> Binding:
        """The program on these live arrays, which must outlive its calls: they are not kept.

        Forms of arrays that have not `moved` are those of the binding `like`; the others are memory only, until `refresh` is called
        with the names in `moved` (all names where there is no `like`).

        Raises:
            ArgumentError: an array has another type than the program was built for, or `read` knows none of that name.
        """
        self._check(self.types.keys() if like is None else moved, read)
        entries = self._table.entries
        constants: list[Array | int] = [0 if array is None else array for array in self._fixed]
        forms: list[Array | None] = [None] * len(entries)
        fresh: list[int] = []
        for index, sources in enumerate(self._sources):
            shared = None if like is None or not sources.isdisjoint(moved) else like.forms[index]
            if shared is not None:
                forms[index] = shared
            elif sources:
                address = self._address_of(entries[index], read)
                constants[index] = address or 0
                if address is None:
                    fresh.append(index)
        for index, array in zip(fresh, self._table.allocate([entries[index] for index in fresh]), strict=True):
            forms[index] = array
        copied: set[str] = set()
        for index, form in enumerate(forms):
            if form is not None:
                constants[index] = form
                copied |= self._sources[index]
        return Binding(self._unbound.with_constants(constants), frozenset(copied), tuple(forms), self)

    def make_forms(self, forms: Sequence[Array | None], names: Collection[str], read: Read) -> None:
        """Fill the forms that depend on one of these live arrays."""
        jobs: list[Job] = []
        size = 0
        for entry, sources, form in zip(self._table.entries, self._sources, forms, strict=True):
            if form is not None and not sources.isdisjoint(names):
                weight = self._table.store.value_of(entry.weight, read)
                jobs += fill_jobs(self._code, entry, weight, form)
                size += form.nbytes
        run_jobs(jobs, 1 if size <= SERIAL_BYTES else self._threads or None)

    def _address_of(self, entry: ConstantEntry, read: Read) -> int | None:
        """Where a live array lies, if the program can read it there."""
        if entry.packed is not None or entry.weight not in self.types:
            return None
        array = read(entry.weight)
        return array.ctypes.data if array.flags.c_contiguous and array.flags.aligned else None

    def _check(self, names: Collection[str], read: Read) -> None:
        for name in frozenset[str]().union(*self._sources) & frozenset(names):
            try:
                type = ArrayType.of(read(name))
            except KeyError as error:
                raise ArgumentError("a weight was never given", where=name, expected=self.types[name]) from error
            if type != self.types[name]:
                raise ArgumentError(
                    "a weight has another type than the program was built for",
                    where=name,
                    got=type,
                    expected=self.types[name],
                    remedy="build the program again",
                )


def _is_same_memory(old: Array | None, new: Array) -> bool:
    return old is not None and (old.ctypes.data, old.strides) == (new.ctypes.data, new.strides)


def load_live(built: BuiltObjects, threads: int) -> LiveProgram:
    """Link the objects in memory against the runtime; the live arrays are given to `refresh`, or watched by a front end."""
    return LiveProgram(built, threads)


__all__ = ["Binding", "LiveProgram", "Read", "load_live"]
