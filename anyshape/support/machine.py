"""Numbers of the machine that code is made for: lanes, registers, caches, cores.

They steer schedules and costs only. Which instructions may be used is the code generator's question, and it asks LLVM.
"""

import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_KIB = 1024
_MIB = 1024 * _KIB


@dataclass(frozen=True)
class Rates:
    """How fast one core works, as the cost model sees it. None of the numbers needs the clock's frequency.

    Args:
        fma: f32 operations in a nanosecond, two to a multiply-add.
        l1, l2, l3, memory: bytes in a nanosecond that are loaded from each level.
        simple: nanoseconds of a vector operation such as an addition, when many of them are independent.
        transcendental: nanoseconds of the exponential of a vector of f32.
        region: nanoseconds that a parallel region on two threads costs beside its work.
    """

    fma: float
    l1: float
    l2: float
    l3: float
    memory: float
    simple: float
    transcendental: float
    region: float


@dataclass(frozen=True)
class Machine:
    """One kind of CPU, as a schedule sees it. The defaults are a modest 64-bit machine.

    Args:
        architecture: `x86_64`, `aarch64`, `riscv64` or whatever the system calls itself.
        vector_bits: width of one vector register.
        registers: number of vector registers.
        l1: bytes of a core's first-level data cache.
        l2: bytes of the second-level cache that a core sees.
        l3: bytes of the third-level cache that a core sees, shared with its neighbours; 0 when there is none.
        line: bytes of a cache line.
        cores: physical cores that this process may use.
        threads: logical processors that this process may use, at least `cores`.
        features: instruction-set extensions, under LLVM's names, out of those that a schedule asks about.
        measured: rates that were measured on this machine; without them `rates` are guessed from the other numbers.
    """

    architecture: str = "unknown"
    vector_bits: int = 128
    registers: int = 16
    l1: int = 32 * _KIB
    l2: int = 512 * _KIB
    l3: int = 8 * _MIB
    line: int = 64
    cores: int = 1
    threads: int = 1
    features: frozenset[str] = field(default_factory=frozenset[str])
    measured: Rates | None = None

    def lanes(self, element_bits: int) -> int:
        """Elements of `element_bits` bits in one vector register, at least 1."""
        return max(1, self.vector_bits // element_bits)

    @property
    def f32_lanes(self) -> int:
        """Float32 elements in one vector register."""
        return self.lanes(32)

    @property
    def last_level_cache(self) -> int:
        """Bytes of the largest cache that a core sees."""
        return self.l3 or self.l2

    @property
    def rates(self) -> Rates:
        """The rates that were measured, else what a core with such vectors usually reaches."""
        return self.measured or _usual_rates(self)


def _usual_rates(machine: Machine) -> Rates:
    """Guesses from the vectors' width: one multiply-add and one simple operation of a vector in a quarter of a nanosecond, which is a core
    of 4 GHz with one unit or of 2 GHz with two; in that time three quarters of a vector from the first-level cache, and less from
    each level behind it. They are meant to be right within a small factor: measure where that matters.
    """
    bytes_ = machine.vector_bits / 8
    fused = machine.architecture != "x86_64" or bool({"fma", "avx512f"} & machine.features)
    return Rates(
        fma=(2.0 if fused else 1.0) * 4 * machine.f32_lanes,
        l1=3 * bytes_,
        l2=1.5 * bytes_,
        l3=min(48.0, bytes_),
        memory=12.0,
        simple=0.25,
        transcendental=6.0,
        region=1500.0,
    )


# What Linux calls an extension in /proc/cpuinfo -> what LLVM calls it.
_X86_FEATURES = {
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "avx": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx512dq": "avx512dq",
    "avx512bw": "avx512bw",
    "avx512vl": "avx512vl",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512vbmi": "avx512vbmi",
    "avx_vnni": "avxvnni",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
}
_AARCH64_FEATURES = {
    "asimd": "neon",
    "asimdhp": "fullfp16",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}
# Vector code masks its tails, which takes all four on 512 bits.
_AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"})


def host_machine(root: Path = Path("/")) -> Machine:
    """The machine that this process runs on.

    Read from `/proc/cpuinfo`, `/sys/devices/system/cpu`, the scheduler's affinity and the control group's CPU quota.
    What cannot be read keeps `Machine`'s default, so the function never fails.

    Args:
        root: directory that holds `proc` and `sys`, for tests.
    """
    default = Machine()
    cpus = _usable_cpus()
    architecture = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()) or "unknown"
    features = _features(root, architecture)
    vector_bits, registers = _vector_registers(architecture, features)
    # Caches are read at the first processor that this process may run on.
    caches, line = _caches(root, min(cpus))
    quota = _cpu_quota(root)
    threads = min(len(cpus), quota)
    return Machine(
        architecture=architecture,
        vector_bits=vector_bits,
        registers=registers,
        l1=caches.get(1, default.l1),
        l2=caches.get(2, default.l2),
        # A machine that lists its caches, but no third level, has none.
        l3=caches.get(3, 0 if caches else default.l3),
        line=line or default.line,
        cores=min(_physical_cores(root, cpus), threads),
        threads=threads,
        features=features,
    )


def processor_name(root: Path = Path("/")) -> str:
    """The processor as the system names it: what measured rates belong to.

    Args:
        root: directory that holds `proc`, for tests.
    """
    fields: dict[str, str] = {}
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    # A virtual machine may hide what model it runs on behind a family's name, and ARM gives numbers in place of a name.
    numbers = [
        f"{key} {fields[key]}" for key in ("cpu family", "model", "CPU implementer", "CPU part") if key in fields
    ]
    name = fields.get("model name") or fields.get("uarch") or platform.processor() or platform.machine() or "unknown"
    return f"{name} ({', '.join(numbers)})" if numbers else name


def _usable_cpus() -> frozenset[int]:
    """Numbers of the logical processors that this process may run on, never empty."""
    try:
        cpus = os.sched_getaffinity(0)
    except (AttributeError, OSError):
        # Not Linux: affinity cannot be asked for.
        cpus = set(range(os.cpu_count() or 1))
    return frozenset(cpus or {0})


def _read(path: Path) -> str:
    """The text of a file, stripped; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _features(root: Path, architecture: str) -> frozenset[str]:
    names: Mapping[str, str] = {"x86_64": _X86_FEATURES, "aarch64": _AARCH64_FEATURES}.get(architecture, {})
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        # x86 says "flags", ARM says "Features"; all processors of a machine say the same.
        if key.strip() in ("flags", "Features"):
            return frozenset(names[word] for word in value.split() if word in names)
    return frozenset()


def _vector_registers(architecture: str, features: frozenset[str]) -> tuple[int, int]:
    """(bits of a vector register, number of them) that code for this machine uses by default."""
    if architecture == "x86_64":
        if features >= _AVX512:
            return 512, 32
        return (256, 16) if "avx2" in features else (128, 16)
    if architecture in ("aarch64", "riscv64"):
        # NEON; for RISC-V the smallest register that its V extension allows.
        return 128, 32
    return Machine().vector_bits, Machine().registers


def _caches(root: Path, cpu: int) -> tuple[dict[int, int], int]:
    """(level -> bytes of the data or unified cache, bytes of a line) at one processor; empty and 0 when unknown."""
    sizes: dict[int, int] = {}
    line = 0
    for index in _entries(root / f"sys/devices/system/cpu/cpu{cpu}/cache", "index*"):
        if _read(index / "type") not in ("Data", "Unified"):
            continue
        level, size = _read(index / "level"), _bytes(_read(index / "size"))
        if level.isdecimal() and size:
            sizes[int(level)] = size
        coherency = _read(index / "coherency_line_size")
        if coherency.isdecimal():
            line = line or int(coherency)
    return sizes, line


def _entries(directory: Path, pattern: str) -> list[Path]:
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []


def _bytes(text: str) -> int:
    """`32K`, `1024K`, `8M` or a plain number, in bytes; 0 when it is none of these."""
    unit = {"K": _KIB, "M": _MIB, "G": 1024 * _MIB}.get(text[-1:], 0)
    digits = text[:-1] if unit else text
    return int(digits) * (unit or 1) if digits.isdecimal() else 0


def _physical_cores(root: Path, cpus: Iterable[int]) -> int:
    """Number of different cores among logical processors: siblings of one core list the same siblings."""
    cores: set[str] = set()
    for cpu in cpus:
        siblings = _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings or f"cpu{cpu}")
    return len(cores)


def _cpu_quota(root: Path) -> int:
    """Processors' worth of time that the control group (version 2) grants, rounded up; very large when unlimited."""
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    unlimited = 1 << 30
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return unlimited
    return max(1, math.ceil(int(quota) / int(period)))
