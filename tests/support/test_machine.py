"""Machine numbers: read from made-up /proc and /sys trees, and from this machine, compared with other sources."""

import os
import platform
from pathlib import Path

import pytest

from anyshape.support import machine as machine_module
from anyshape.support.machine import Machine, host_machine, processor_name

ICE_LAKE = "fpu sse4_1 sse4_2 avx f16c fma avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni unheard_of"
LLVM_ICE_LAKE = {"sse4.1", "sse4.2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512dq", "avx512bw", "avx512vl"} | {
    "avx512vnni"
}


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cache_files(cpu: int, levels: dict[str, tuple[str, str, str]]) -> dict[str, str]:
    files: dict[str, str] = {}
    for index, (level, kind, size) in levels.items():
        base = f"sys/devices/system/cpu/cpu{cpu}/cache/{index}"
        files |= {f"{base}/level": level, f"{base}/type": kind, f"{base}/size": size}
        files[f"{base}/coherency_line_size"] = "64\n"
    return files


@pytest.fixture
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be an x86-64 with processors 2 to 5 to run on."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine_module.os, "sched_getaffinity", lambda _: {2, 3, 4, 5}, raising=False)


@pytest.mark.usefixtures("on_x86")
def test_x86_with_avx512(tmp_path: Path) -> None:
    levels = {
        "index0": ("1", "Data\n", "48K\n"),
        "index1": ("1", "Instruction\n", "32K\n"),
        "index2": ("2", "Unified\n", "1280K\n"),
        "index3": ("3", "Unified\n", "54M\n"),
    }
    siblings = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": pair
        for cpu, pair in {2: "2-3", 3: "2-3", 4: "4-5", 5: "4-5"}.items()
    }
    root = write_tree(
        tmp_path, {"proc/cpuinfo": f"processor : 0\nflags\t\t: {ICE_LAKE}\n"} | cache_files(2, levels) | siblings
    )
    assert host_machine(root) == Machine(
        architecture="x86_64",
        vector_bits=512,
        registers=32,
        l1=48 * 1024,
        l2=1280 * 1024,
        l3=54 * 1024 * 1024,
        line=64,
        cores=2,
        threads=4,
        features=frozenset(LLVM_ICE_LAKE),
    )


@pytest.mark.usefixtures("on_x86")
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("avx avx2 fma avx512f", (256, 16)),  # 512 bits without byte, word and short-vector forms are of no use
        ("avx avx2 fma", (256, 16)),
        ("sse4_1", (128, 16)),
        ("", (128, 16)),
    ],
)
def test_x86_vector_registers(tmp_path: Path, flags: str, expected: tuple[int, int]) -> None:
    host = host_machine(write_tree(tmp_path, {"proc/cpuinfo": f"flags : {flags}\n"}))
    assert (host.vector_bits, host.registers) == expected


def test_aarch64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    host = host_machine(write_tree(tmp_path, {"proc/cpuinfo": "Features\t: fp asimd asimddp sve i8mm\n"}))
    assert (host.vector_bits, host.registers, host.f32_lanes) == (128, 32, 4)
    assert host.features == {"neon", "dotprod", "sve", "i8mm"}


@pytest.mark.usefixtures("on_x86")
@pytest.mark.parametrize(
    ("cpu_max", "threads"), [("150000 100000", 2), ("10000 100000", 1), ("max 100000", 4), ("x", 4)]
)
def test_the_control_group_limits_threads_and_cores(tmp_path: Path, cpu_max: str, threads: int) -> None:
    host = host_machine(write_tree(tmp_path, {"sys/fs/cgroup/cpu.max": f"{cpu_max}\n"}))
    assert (host.threads, host.cores) == (threads, threads)


@pytest.mark.usefixtures("on_x86")
def test_a_machine_that_lists_two_levels_has_no_third(tmp_path: Path) -> None:
    root = write_tree(tmp_path, cache_files(2, {"index0": ("1", "Data", "32K"), "index1": ("2", "Unified", "2M")}))
    host = host_machine(root)
    assert (host.l3, host.last_level_cache) == (0, 2 * 1024 * 1024)


def test_a_system_without_proc_sys_and_affinity_gets_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "")
    monkeypatch.delattr(machine_module.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert host_machine(tmp_path) == Machine()


@pytest.mark.usefixtures("on_x86")
def test_garbage_in_the_files_is_no_error(tmp_path: Path) -> None:
    levels = {"index0": ("one", "Data", "big"), "index1": ("2", "Unified", "K"), "index2": ("²", "Data", "1T")}
    host = host_machine(write_tree(tmp_path, {"proc/cpuinfo": "\0flags"} | cache_files(2, levels)))
    assert (host.l1, host.l2, host.l3) == (Machine().l1, Machine().l2, Machine().l3)


def test_this_machine() -> None:
    host = host_machine()
    assert 1 <= host.cores <= host.threads <= (os.cpu_count() or 1)
    assert 0 < host.l1 <= host.l2
    assert host.vector_bits in (128, 256, 512)
    assert host == host_machine()


@pytest.mark.parametrize(("bits", "lanes"), [(64, 8), (32, 16), (16, 32), (8, 64), (1024, 1)])
def test_lanes(bits: int, lanes: int) -> None:
    assert Machine(vector_bits=512).lanes(bits) == lanes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Some CPU\n\nprocessor : 1\nmodel name : Other\n",
         "Some CPU (cpu family 25, model 17)"),
        ("CPU implementer : 0x41\nCPU part : 0xd40\n", "aarch64 (CPU implementer 0x41, CPU part 0xd40)"),
        ("uarch : sifive,u74\n", "sifive,u74"),
        ("", "aarch64"),
    ],
)  # fmt: skip
def test_processors_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert processor_name(write_tree(tmp_path, {"proc/cpuinfo": text})) == expected
