"""Loads RAL and runs compiled programs: data in as addresses, sizes and strides, errors out as typed exceptions."""

import copy
import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.runtime.abi import (
    ABI,
    TENSOR_FORMAT,
    AllocateOutput,
    Argument,
    ArgumentLayout,
    CallLayout,
    Code,
    ConstantLayout,
    DType,
    PlaceOutput,
    PreparedLayout,
    ProgramLayout,
)
from anyshape.support.errors import (
    AnyshapeError,
    ArgumentError,
    ArtifactError,
    DtypeError,
    GuardError,
    IndexOutOfRange,
    MemoryLimit,
    RankError,
    SingularMatrix,
    error_from_text,
)

TensorView = tuple[int, Sequence[int], Sequence[int], int]
"""An input: address of element (0, ..., 0), sizes, strides in elements, `DType` code."""

Allocate = Callable[[int, int, list[int], list[int]], int]
"""Allocates an output: index, `DType` code, sizes, strides in elements -> address, which must stay valid."""

_ERRORS: Mapping[int, type[AnyshapeError]] = {
    Code.INDEX: IndexOutOfRange,
    Code.GUARD: GuardError,
    Code.DTYPE: DtypeError,
    Code.RANK: RankError,
    Code.ARGUMENT: ArgumentError,
    Code.MEMORY: MemoryLimit,
    Code.ABI_MISMATCH: ArtifactError,
    Code.SINGULAR: SingularMatrix,
}

_INT32, _INT64, _ADDRESS, _TEXT = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
_FLOAT = ctypes.c_float

_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "ral_abi": (_INT32, ()),
    "__truncsfbf2": (_FLOAT, (_FLOAT,)),
    "ral_report_index": (None, (_ADDRESS, _INT64, _INT64, _INT64)),
    "ral_run_parts": (None, (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT64, _INT64)),
    "ral_launch": (_INT32, (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT64, _INT64, _INT64)),
    "ral_arena": (_ADDRESS, (_ADDRESS, _INT64)),
    "ral_arena_part": (_ADDRESS, (_ADDRESS, _INT32, _INT64)),
    "ral_plan_arena": (_INT32, (_ADDRESS, _INT32, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)),
    "ral_contiguous": (_INT32, (_ADDRESS, _ADDRESS, _INT64, _ADDRESS)),
    "ral_is_contiguous": (_INT32, (_ADDRESS,)),
    "ral_fail": (_INT32, (_ADDRESS, _INT32, _TEXT, _INT64, _INT64, _INT64, _INT64)),
    "ral_context_create": (_ADDRESS, (_INT32,)),
    "ral_context_destroy": (None, (_ADDRESS,)),
    "ral_error": (_TEXT, (_ADDRESS,)),
    "ral_error_code": (_INT32, (_ADDRESS,)),
    "ral_run": (_INT32, (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)),
    "ral_place_output": (_ADDRESS, (_ADDRESS, _INT32, _INT32, _INT32, _ADDRESS, _ADDRESS)),
    "ral_map_constants": (_INT32, (_ADDRESS, _TEXT, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)),
    "ral_unmap_constants": (None, (_ADDRESS, ctypes.c_size_t)),
    "ral_watch_note": (_INT32, (_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS, _ADDRESS)),
    "ral_watch_check": (_INT64, (_ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS, _INT32)),
}
"""Every function of `ral.h`: result and arguments."""


def include_directory() -> Path:
    """The folder of `ral.h`."""
    return Path(__file__).parent


def source_files() -> tuple[Path, ...]:
    """The C files of RAL, for a program that is linked without Python."""
    return tuple(include_directory() / name for name in ("ral.c", "ral_plan.c", "ral_pool.c"))


class Runtime:
    """RAL as a loaded library.

    Args:
        library_path: the shared library; by default the one that was built with the package.

    Attributes:
        library: the ctypes library with all signatures declared. Its calls release Python's global lock.
        symbols: address of each of its functions, for a JIT that resolves the names in compiled objects.

    Raises:
        ArtifactError: the library is missing, cannot be loaded, or has another ABI than this module.
    """

    def __init__(self, library_path: Path | None = None) -> None:
        self.library_path = library_path or Path(__file__).with_name("_ral.so")
        remedy = "build it: `pip install .`, or `python setup.py build_ext --inplace` in the source tree"
        if not self.library_path.is_file():
            raise ArtifactError("the C runtime has not been built", where=self.library_path, remedy=remedy)
        try:
            self.library = ctypes.CDLL(str(self.library_path))
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(self.library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise ArtifactError(
                "the C runtime cannot be loaded", where=self.library_path, got=error, remedy=remedy
            ) from error
        if (abi := self.library.ral_abi()) != ABI:
            raise ArtifactError(
                "the C runtime is of another version than the package",
                where=self.library_path,
                got=f"ABI {abi}",
                expected=f"ABI {ABI}",
                remedy=remedy,
            )
        self.symbols: Mapping[str, int] = {name: self._address(name) for name in _SIGNATURES}

    def with_interpreter_lock(self, name: str) -> Callable[..., Any]:
        """A function whose calls keep Python's global lock, and raise what an interpreter function that it calls raised."""
        result, arguments = _SIGNATURES[name]
        return ctypes.PYFUNCTYPE(result, *arguments)(self.symbols[name])

    def _address(self, name: str) -> int:
        address = ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value
        assert address is not None
        return address

    def create_context(self, threads: int) -> int:
        """The address of a new `ral_context`; 0 threads means one for each online processor.

        Raises:
            ArgumentError: `threads` is negative.
            MemoryLimit: memory is short.
        """
        if threads < 0:
            raise ArgumentError("the number of threads is negative", where="threads", got=threads, expected=">= 0")
        context: int | None = self.library.ral_context_create(threads)
        if context is None:
            raise MemoryLimit("no memory for a runtime context")
        return context

    def error(self, context: int) -> AnyshapeError:
        """The last failure of a context as an exception."""
        code: int = self.library.ral_error_code(context)
        text: bytes = self.library.ral_error(context)
        return error_from_text(_ERRORS.get(code, AnyshapeError), text.decode(errors="replace"))


@cache
def runtime() -> Runtime:
    """The runtime of this process."""
    return Runtime()


def _when_dropped(owner: object, free: Callable[..., None], *memory: object) -> None:
    """Free what belongs to `owner` when it goes. Not as the process ends: daemon threads may be using it then."""
    weakref.finalize(owner, free, *memory).atexit = False


_POINTER = Struct("=Q")
_IS_ALIVE = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value


class _Tensors:
    """An array of `ral_tensor` followed by all sizes and strides, laid out once for tensors of the given ranks."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._layout = Struct("=" + TENSOR_FORMAT * len(ranks) + "q" * (2 * sum(ranks)))
        self._head = Struct("=" + TENSOR_FORMAT)
        self._memory = ctypes.create_string_buffer(self._layout.size + 1)
        self.address = ctypes.addressof(self._memory)
        self._ranks = tuple(ranks)
        self.count = len(ranks)
        self._vectors: list[tuple[int, int]] = []
        position = self.address + self._head.size * len(ranks)
        for rank in ranks:
            self._vectors.append((position, position + 8 * rank))
            position += 16 * rank
        self._filled: tuple[TensorView, ...] = ()

    def fill(self, tensors: Sequence[TensorView]) -> None:
        """Write the tensors. Of a caller who keeps its views from call to call, and so the last of them, only the new ones are written."""
        before, self._filled = self._filled, ()
        if before and tensors[-1] is before[-1]:
            for index, (old, new) in enumerate(zip(before, tensors, strict=True)):
                if new is not old:
                    self._put(index, new)
        else:
            self._put_all(tensors)
        self._filled = tuple(tensors)

    def have_ranks_of(self, sizes: Sequence[Sequence[int]]) -> bool:
        return tuple([len(size) for size in sizes]) == self._ranks

    def place(self, index: int, data: int) -> None:
        """Write where the elements of one tensor are."""
        _POINTER.pack_into(self._memory, self._head.size * index, data)

    def _put_all(self, tensors: Sequence[TensorView]) -> None:
        heads: list[int] = []
        vectors: list[int] = []
        for (data, sizes, strides, dtype), (sizes_address, strides_address) in zip(tensors, self._vectors, strict=True):
            heads += (data, sizes_address, strides_address, len(sizes), dtype)
            vectors += sizes
            vectors += strides
        self._layout.pack_into(self._memory, 0, *heads, *vectors)

    def _put(self, index: int, tensor: TensorView) -> None:
        data, sizes, strides, dtype = tensor
        addresses = self._vectors[index]
        self._head.pack_into(self._memory, self._head.size * index, data, *addresses, len(sizes), dtype)
        vector = _vector(2 * len(sizes))
        vector.pack_into(self._memory, addresses[0] - self.address, *sizes, *strides)


class _Asked:
    """The callback that allocates an output, and what it was asked for.

    No exception can pass through C: it waits here until C has returned. One that a signal's handler raises before it is caught here is
    lost, and C, whose pointer stays null, fails.
    """

    def __init__(self) -> None:
        self.allocate: Allocate | None = None
        self.failure: BaseException | None = None
        self.outputs: list[tuple[int, int, list[int], list[int]]] = []

    def __call__(self, data: int, index: int, dtype: int, rank: int, sizes: int, strides: int) -> None:
        try:
            assert self.allocate is not None
            output = index, dtype, _read_vector(sizes, rank), _read_vector(strides, rank)
            self.outputs.append(output)
            ctypes.c_void_p.from_address(data).value = self.allocate(*output)
        except BaseException as error:
            self.failure = error


class _Outputs:
    """The `ral_prepared` of calls: where inputs have the sizes of the call before, its outputs are allocated before C is called. A
    callback from C, which takes as long as the rest of a small call, is left to outputs whose sizes turn out otherwise."""

    def __init__(self, outputs: Sequence[Argument]) -> None:
        # The callback refers to none of these: without a cycle, the context goes with the program.
        self.asked = _Asked()
        self._tensors = _Tensors([output.rank for output in outputs])
        self._prepared = PreparedLayout(self._tensors.address, 0, PlaceOutput(self.asked), _IS_ALIVE)
        self._expected: list[tuple[int, int, list[int], list[int]]] = []
        self._input_sizes: list[Sequence[int]] | None = None
        self._hang_on_data = False
        self.address = ctypes.addressof(self._prepared)

    def expects(self, input_sizes: list[Sequence[int]]) -> bool:
        """Whether it is known which outputs a call has whose inputs have these sizes."""
        if input_sizes == self._input_sizes:
            return True
        self._forget()
        return False

    def prepare(self, allocate: Allocate) -> None:
        """Allocate what is expected. Where that cannot be had, C asks for what is needed, which may be less."""
        self.asked.allocate, self.asked.failure = allocate, None
        if self._input_sizes is not None:
            try:
                for output in self._expected:
                    self._tensors.place(output[0], allocate(*output))
            except (MemoryError, RuntimeError):  # PyTorch raises the latter
                self._forget()

    def learn(self, input_sizes: list[Sequence[int]], is_complete: bool) -> None:
        """Take from a call what to expect of the next. Where an expectation did not hold there are no more: data say the sizes."""
        asked = self.asked
        asked.allocate = asked.failure = None
        if not asked.outputs:
            return
        outputs, asked.outputs = asked.outputs, []
        self._hang_on_data = self._hang_on_data or self._input_sizes is not None
        self._forget()
        if is_complete and not self._hang_on_data and len(outputs) == self._tensors.count:
            self._expected = sorted(outputs)
            self._tensors.fill([(0, sizes, strides, dtype) for _, dtype, sizes, strides in self._expected])
            self._prepared.output_count = len(outputs)
            self._input_sizes = input_sizes

    def _forget(self) -> None:
        if self._input_sizes is not None:
            self._input_sizes = None
            self._prepared.output_count = 0


def _read_vector(address: int, length: int) -> list[int]:
    return _array_at(length)(address)[:] if length else []


@cache
def _array_at(length: int) -> Callable[[int], "ctypes.Array[ctypes.c_int64]"]:
    return (ctypes.c_int64 * length).from_address


@cache
def _vector(length: int) -> Struct:
    return Struct(f"={length}q")


class _Stream:
    """A context with the buffers of a call: what one thread needs while it runs a program."""

    def __init__(self, loaded: Runtime, threads: int, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
        self._runtime = loaded
        self._run = loaded.library.ral_run
        self.context = loaded.create_context(threads)
        _when_dropped(self, loaded.library.ral_context_destroy, self.context)
        self._inputs = _Tensors([argument.rank for argument in inputs])
        self._outputs = _Outputs(outputs)
        self._call = self._call_of(self._inputs)
        self._call_address = ctypes.addressof(self._call)

    def _call_of(self, inputs: _Tensors) -> CallLayout:
        allocate = AllocateOutput(self._runtime.symbols["ral_place_output"])
        return CallLayout(inputs.address, inputs.count, allocate, self._outputs.address)

    def run(self, program: int, constants: int, tensors: Sequence[TensorView], allocate: Allocate) -> None:
        call, outputs = self._call_address, self._outputs
        sizes = [tensor[1] for tensor in tensors]
        if outputs.expects(sizes) or self._inputs.have_ranks_of(sizes):
            self._inputs.fill(tensors)
        else:  # RAL refuses this call and says which input is wrong
            others = _Tensors([len(size) for size in sizes])
            others.fill(tensors)
            refused = self._call_of(others)
            call = ctypes.addressof(refused)
        code = None
        try:
            outputs.prepare(allocate)
            code = self._run(self.context, program, constants, call)
            failure = outputs.asked.failure
        finally:
            outputs.learn(sizes, code == Code.OK)
        if failure is not None:
            raise failure
        if code != Code.OK:
            raise self._runtime.error(self.context)


class Program:
    """A compiled program in this process. Any number of threads may run it at once.

    Args:
        descriptor_address: address of its `ral_program`.
        constants: one C-contiguous array or one address for each constant of the descriptor.
        threads: threads that its kernels use, the caller's among them; 0 means one for each online processor.
        owner: what must live as long as the program, such as the JIT engine or library that holds its code.

    Raises:
        ArtifactError: the descriptor has another ABI, or the constants do not fit it.
        ArgumentError: `threads` is negative.
    """

    def __init__(
        self,
        descriptor_address: int,
        constants: Sequence[NDArray[Any] | int],
        threads: int,
        owner: object = None,
    ) -> None:
        self._runtime = runtime()
        self._descriptor_address = descriptor_address
        self._owner = owner
        self._threads = threads
        descriptor = _read_descriptor(descriptor_address)
        self.inputs = _read_arguments(descriptor.inputs, descriptor.input_count)
        self.outputs = _read_arguments(descriptor.outputs, descriptor.output_count)
        self._set_constants(constants)
        # Streams that no thread is using. A call takes one and gives it back, so there are as many as there have been
        # calls at the same time, however many threads come and go, and a call from within `allocate` gets its own.
        self._idle = [_Stream(self._runtime, threads, self.inputs, self.outputs)]

    @classmethod
    def open(cls, descriptor_address: int, constants_path: Path, threads: int, owner: object = None) -> "Program":
        """A program whose constants are mapped from a file, read-only and not copied.

        Raises:
            ArtifactError: the file is missing, too short or not of this program; or as for `Program`.
        """
        loaded = runtime()
        descriptor = _read_descriptor(descriptor_address)
        table = (ctypes.c_void_p * descriptor.constant_count)()
        mapping, mapped = ctypes.c_void_p(), ctypes.c_size_t()
        context = loaded.create_context(1)
        try:
            code = loaded.library.ral_map_constants(
                context,
                bytes(constants_path),
                descriptor_address,
                ctypes.addressof(table),
                ctypes.addressof(mapping),
                ctypes.addressof(mapped),
            )
            if code != Code.OK:
                raise ArtifactError(str(loaded.error(context)), remedy="compile the program again")
        finally:
            loaded.library.ral_context_destroy(context)
        program = cls(descriptor_address, [address or 0 for address in table], threads, owner)
        _when_dropped(program, loaded.library.ral_unmap_constants, mapping.value, mapped.value)
        return program

    def _set_constants(self, constants: Sequence[NDArray[Any] | int]) -> None:
        descriptor = _read_descriptor(self._descriptor_address)
        spans = (ConstantLayout * descriptor.constant_count).from_address(descriptor.constants or 0)
        if len(constants) != len(spans):
            raise ArtifactError(
                "the constants do not belong to the program", got=f"{len(constants)} constants", expected=len(spans)
            )
        self._constants = tuple(constants)
        addresses = [_constant_address(i, constant, spans[i].bytes) for i, constant in enumerate(constants)]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        self._table_address = ctypes.addressof(self._table)

    def with_constants(self, constants: Sequence[NDArray[Any] | int]) -> "Program":
        """The same code over other constants. Both use the same contexts, and so the same memory for intermediate values.

        Raises:
            ArtifactError: the constants do not fit the descriptor.
        """
        other = copy.copy(self)
        other._set_constants(constants)
        return other

    def run(self, tensors: Sequence[TensorView], allocate: Allocate) -> None:
        """Runs the program; `allocate` is called once for each output, from the calling thread.

        The memory behind `tensors` must stay valid during the call. What `allocate` raises is raised here.

        Raises:
            ArgumentError, DtypeError, RankError: an input does not fit the descriptor.
            GuardError: a size that the program was not compiled for.
            IndexOutOfRange: a kernel met an index out of range.
            MemoryLimit: memory is short.
        """
        try:
            stream = self._idle.pop()
        except IndexError:
            stream = _Stream(self._runtime, self._threads, self.inputs, self.outputs)
        try:
            stream.run(self._descriptor_address, self._table_address, tensors, allocate)
        finally:
            self._idle.append(stream)


def _read_descriptor(address: int) -> ProgramLayout:
    if not address:
        raise ArtifactError("the program has no descriptor", got="a null address")
    descriptor = ProgramLayout.from_address(address)
    if descriptor.abi != ABI:
        raise ArtifactError(
            "the program was compiled for another runtime",
            got=f"ABI {descriptor.abi}",
            expected=f"ABI {ABI}",
            remedy="compile it again",
        )
    return descriptor


def _read_arguments(address: int | None, count: int) -> tuple[Argument, ...]:
    layouts = (ArgumentLayout * count).from_address(address or 0)
    return tuple(Argument(layout.name.decode(), DType(layout.dtype), layout.rank) for layout in layouts)


def _constant_address(index: int, constant: NDArray[Any] | int, expected_bytes: int) -> int:
    if not isinstance(constant, np.ndarray):
        return constant
    if constant.nbytes != expected_bytes or not constant.flags.c_contiguous:
        layout = "C-contiguous" if constant.flags.c_contiguous else "strided"
        raise ArtifactError(
            "a constant does not fit the program",
            where=f"constant {index}",
            got=f"{constant.nbytes} bytes, {layout}",
            expected=f"{expected_bytes} bytes, C-contiguous",
        )
    return constant.ctypes.data
