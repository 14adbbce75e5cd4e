"""The typed face of LLVM (llvmlite): targets, optimisation, object and assembly emission, and loading objects for
execution.

This is the only file that imports llvmlite. Objects are position-independent, so that the same bytes are loaded here,
cached, or linked into a deployed library.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as _llvmlite

from anyshape.support.errors import CodegenError

# llvmlite carries no type annotations.
binding: Any = _llvmlite

_library_numbers = itertools.count()
_emission_lock = threading.Lock()
_objects_emitted = 0

LIBRARY_SYMBOLS = (
    "memcpy", "memmove", "memset", "fmod", "fmodf", "fma", "fmaf", "floor", "floorf", "ceil", "ceilf", "trunc",
    "truncf", "roundeven", "roundevenf",
)  # fmt: skip
"""C functions that LLVM's code generator may call by itself; `LoadedCode` finds them in the running process."""


@dataclass(frozen=True)
class Target:
    """What machine code is for: LLVM triple (`x86_64-unknown-linux-gnu`), CPU name and feature string
    (`+avx2,-avx512f`)."""

    triple: str
    cpu: str = ""
    features: str = ""


@cache
def _initialise() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmparser()


@cache
def host_target() -> Target:
    """The machine that this process runs on, with 512-bit vectors allowed wherever AVX-512 is there."""
    _initialise()
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        # Several x86 CPUs are tuned to prefer 256-bit vectors, and LLVM would split every 512-bit operation in two.
        features["prefer-256-bit"] = False
    return Target(binding.get_process_triple(), binding.get_host_cpu_name(), features.flatten())


@cache
def _target_machine(target: Target, level: int = 3) -> Any:
    _initialise()
    try:
        backend = binding.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no backend for target {target.triple!r}: {error}") from error
    return backend.create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="default"
    )


def _parse(ir_text: str, target: Target) -> Any:
    machine = _target_machine(target)
    try:
        module = binding.parse_assembly(ir_text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM rejected the generated IR: {error}") from error
    return module


def optimise(ir_text: str, target: Target) -> str:
    """Run the IR pipeline `sroa, instcombine, simplifycfg` and return the text.

    Code generation (level 3) does the rest: on vector kernels this is as fast as the full O3 pipeline at a quarter of
    the compile time. No pass here assumes fast-math.
    """
    return str(_optimised(ir_text, target))


def _optimised(ir_text: str, target: Target) -> Any:
    module = _parse(ir_text, target)
    builder = binding.create_pass_builder(_target_machine(target), binding.create_pipeline_tuning_options(2))
    manager = binding.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.run(module, builder)
    return module


def emit_object(ir_text: str, target: Target, level: int = 3) -> bytes:
    """Compile LLVM IR text to a relocatable object file; level 0 to 3 says how hard the code generator tries."""
    # Emission changes the module that it is given, so every emission parses its own.
    return _emitted(_parse(ir_text, target), target, level)


def emit_optimised_object(ir_text: str, target: Target) -> bytes:
    """`emit_object` of what `optimise` returns, without its text in between."""
    return _emitted(_optimised(ir_text, target), target, level=3)


def _emitted(module: Any, target: Target, level: int) -> bytes:
    global _objects_emitted
    data: bytes = _target_machine(target, level).emit_object(module)
    with _emission_lock:
        _objects_emitted += 1
    return data


def emit_assembly(ir_text: str, target: Target) -> str:
    """Compile LLVM IR text to assembly text."""
    return str(_target_machine(target).emit_assembly(_parse(ir_text, target)))


def objects_emitted() -> int:
    """How many objects this process has emitted: compilations that really happened."""
    return _objects_emitted


@dataclass(frozen=True)
class ObjectSymbols:
    """Global symbols of an object file: what it defines, and what it needs from elsewhere."""

    defined: frozenset[str]
    undefined: frozenset[str]


_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_ELF_SECTION = struct.Struct("<IIQQQQIIQQ")
_ELF_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_SHN_UNDEF = 0
_STB_LOCAL, _STB_WEAK = 0, 2


def object_symbols(data: bytes) -> ObjectSymbols | None:
    """Read the symbol table of an ELF64 object; None for other formats. Weak undefined symbols are not needed ones.

    Raises `CodegenError` on a truncated object. Source: the System V ABI, chapters "Section Header" and "Symbol Table".
    """
    if not data.startswith(_ELF64_LITTLE_ENDIAN):
        return None
    defined: set[str] = set()
    undefined: set[str] = set()
    try:
        (table_offset,) = struct.unpack_from("<Q", data, 40)
        entry_size, count = struct.unpack_from("<HH", data, 58)
        sections: list[tuple[int, ...]] = [
            _ELF_SECTION.unpack_from(data, table_offset + number * entry_size) for number in range(count)
        ]
        for section in sections:
            _, kind, _, _, offset, size, link, _, _, _ = section
            if kind != _SHT_SYMTAB:
                continue
            names = sections[link][4]
            for position in range(offset, offset + size, _ELF_SYMBOL.size):
                name, info, _, where, _, _ = _ELF_SYMBOL.unpack_from(data, position)
                if info >> 4 == _STB_LOCAL or name == 0:
                    continue
                start = names + name
                text = data[start : data.index(b"\0", start)].decode()
                if where != _SHN_UNDEF:
                    defined.add(text)
                elif info >> 4 != _STB_WEAK:
                    undefined.add(text)
    except (struct.error, IndexError, ValueError) as error:
        raise CodegenError(f"corrupt ELF object of {len(data)} bytes: {error}") from error
    return ObjectSymbols(frozenset(defined), frozenset(undefined))


@cache
def _library_addresses() -> Mapping[str, int]:
    process = ctypes.CDLL(None)
    found: dict[str, int] = {}
    for name in LIBRARY_SYMBOLS:
        function = getattr(process, name, None)
        address = ctypes.cast(function, ctypes.c_void_p).value if function is not None else None
        if address is not None:
            found[name] = address
    return found


class LoadedCode:
    """Objects for the host, linked together in memory and ready to run.

    Undefined symbols are looked up among the objects, then in `symbols` (name to address), then among
    `LIBRARY_SYMBOLS`; one that is found nowhere raises `CodegenError` here. The code lives as long as this object:
    callers that hand out addresses keep a reference to it.
    """

    def __init__(self, objects: Sequence[bytes], symbols: Mapping[str, int] | None = None) -> None:
        known = {**_library_addresses(), **(symbols or {})}
        tables = [table for table in map(object_symbols, objects) if table is not None]
        defined = frozenset[str]().union(*(table.defined for table in tables))
        undefined = frozenset[str]().union(*(table.undefined for table in tables)) - defined
        missing = sorted(undefined - known.keys() - {"_GLOBAL_OFFSET_TABLE_"})
        if missing:
            raise CodegenError(
                f"undefined symbols in {len(objects)} objects: {', '.join(missing)}; "
                "expected them in another object or in the given symbols"
            )
        self._name = f"anyshape.{next(_library_numbers)}"
        # One JIT for each load: when it goes, its code and tables go too. JITLink lays the sections of an object side by side;
        # the older linker puts each where there is room, and in a process with gigabytes of libraries that can be too far.
        self._jit = binding.create_lljit_compiler(_host_jit_machine(), use_jit_link=True, suppress_errors=True)
        library = binding.JITLibraryBuilder()
        for data in objects:
            library.add_object_img(data)
        for name, address in known.items():
            if name not in defined:
                library.import_symbol(name, address)
        for name in defined:
            library.export_symbol(name)
        try:
            self._tracker = library.link(self._jit, self._name)
        except RuntimeError as error:
            raise CodegenError(f"loading {len(objects)} objects failed: {error}") from error
        self._exported = defined

    def address(self, name: str) -> int:
        """The address of a function or constant that the objects define; raises `CodegenError` if none does."""
        if name in self._exported:
            return int(self._tracker[name])
        try:
            return int(self._jit.lookup(self._name, name)[name])
        except RuntimeError as error:
            raise CodegenError(f"the loaded objects define no symbol {name!r}: {error}") from error


def _host_jit_machine() -> Any:
    target = host_target()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default", jit=True
    )
