"""The cache of compiled programs: what it trusts, what it refuses, and that a warm process compiles nothing."""

import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyshape.codegen.llvm import host_target
from anyshape.dialects.dhlo import ConstantStore
from anyshape.driver.cache import Cache, CacheWarning, Entry, key_of
from anyshape.driver.constants import ConstantTable
from anyshape.driver.stored import BuiltObjects, StoredProgram, Summary
from anyshape.support.machine import host_machine
from anyshape.support.options import Options
from anyshape.support.trace import Trace

ENTRY = Entry(
    {"launches": {"k0": 2}, "guards": ["s <= 512"]}, {"kernels": b"\x7fELF" + bytes(range(256)), "program": b""}
)
KEY = "a" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.entry")
    return path


def largest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.entry"), key=lambda path: -path.stat().st_size)


def test_an_entry_comes_back_as_it_was_put(folder: Path) -> None:
    Cache(folder).put(KEY, ENTRY)
    assert Cache(folder).get(KEY) == ENTRY
    assert Cache(folder).get("b" * 64) is None


def test_folder_and_files_are_private_to_their_owner(folder: Path) -> None:
    Cache(folder).put(KEY, ENTRY)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert file_of(folder).stat().st_mode & 0o077 == 0


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"something else entirely",
        lambda data: flip(data, 3),
        lambda data: flip(data, 30),
        lambda data: flip(data, len(data) // 2),
        lambda data: flip(data, len(data) - 1),
    ],
)
def test_a_damaged_entry_is_dropped_with_a_warning(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    Cache(folder).put(KEY, ENTRY)
    path = file_of(folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(CacheWarning, match="compiling again"):
        assert Cache(folder).get(KEY) is None
    assert not path.exists()
    Cache(folder).put(KEY, ENTRY)
    assert Cache(folder).get(KEY) == ENTRY


def test_every_single_byte_matters() -> None:
    data = ENTRY.encode()
    for at in range(len(data)):
        with pytest.raises(ValueError):
            Entry.decode(flip(data, at))


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    Cache(folder).put(KEY, ENTRY)
    path = file_of(folder)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.warns(CacheWarning):
        assert Cache(folder).get(KEY) is None
    assert elsewhere.exists()


def test_a_folder_that_is_a_link_or_open_to_others_is_refused(folder: Path, tmp_path: Path) -> None:
    Cache(folder).put(KEY, ENTRY)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.warns(CacheWarning, match="links"):
        Cache(link).put(KEY, ENTRY)
    folder.chmod(0o755)
    with pytest.warns(CacheWarning, match="0700"):
        assert Cache(folder).get(KEY) is None
    folder.chmod(0o700)
    assert file_of(folder).exists(), "an entry is not deleted from a folder that is not trusted"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    Cache(folder).put(KEY, ENTRY)
    os.chown(file_of(folder), 12345, 12345)
    with pytest.warns(CacheWarning, match="not a regular file of this user"):
        assert Cache(folder).get(KEY) is None


def test_a_cache_that_cannot_be_written_only_warns(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(CacheWarning, match="cannot be written"):
        Cache(blocked).put(KEY, ENTRY)


def test_the_oldest_entries_are_evicted(folder: Path) -> None:
    size = len(ENTRY.encode())
    cache = Cache(folder, limit_bytes=3 * size)
    keys = [letter * 64 for letter in "abcde"]
    for age, key in enumerate(keys):
        cache.put(key, ENTRY)
        os.utime(folder / f"{key}.entry", (1000 + age, 1000 + age))
        if key == keys[2]:
            assert cache.get(keys[0]) == ENTRY  # used again: now the youngest
    assert [key for key in keys if (folder / f"{key}.entry").exists()] == [keys[0], keys[3], keys[4]]


def put_many(folder: Path, number: int) -> None:
    warnings.simplefilter("error")
    cache = Cache(folder)
    for round in range(50):
        cache.put(KEY, Entry({"writer": number, "round": round}, {"data": bytes([number]) * 5000}))
        entry = cache.get(KEY)
        assert entry is not None and set(entry.blobs["data"]) == {entry.head["writer"]}


def test_two_processes_may_write_at_once(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=put_many, args=(folder, number)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert [path.suffix for path in folder.iterdir()] == [".entry"]


def test_keys_tell_everything_apart() -> None:
    target, machine = host_target(), host_machine()
    keys = [
        key_of("program", target, machine, "graph"),
        key_of("other", target, machine, "graph"),
        key_of("program", target, machine, "graph", ""),
        key_of("program", target, machine, "gra", "ph"),
        key_of("program", type(target)(target.triple, "haswell", target.features), machine, "graph"),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == key_of("program", target, machine, "graph")


def test_options_that_change_the_program_change_its_place(folder: Path) -> None:
    target, machine = host_target(), host_machine()
    empty = BuiltObjects({"program": b"code"}, ConstantTable((), ConstantStore()), Summary({}, {}, ()))

    def place(graph: str = "graph", **options: Any) -> StoredProgram:
        return StoredProgram(machine, target, Options(cache=folder, **options), graph)

    place().put(empty, frozenset(), ["beside"])
    same = place(threads=1, verify=True, log=("fusion",), dump=folder).get(ConstantStore(), Trace())
    assert same is not None and same[0].objects == empty.objects and same[1] == ["beside"]
    for other in (place("another"), place(pack_weights=False), place(pack_budget_bytes=100)):
        assert other.get(ConstantStore(), Trace()) is None


WARM = """
import sys, torch, anyshape
from xdsl.ir import Operation
from anyshape.codegen.llvm import objects_emitted
built = 0
initialise = Operation.__init__
def counted(self, *args, **kwargs):
    global built
    built += 1
    initialise(self, *args, **kwargs)
anyshape.compile  # imports the compiler
Operation.__init__ = counted
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4), torch.nn.Softmax(-1)).eval()
program = anyshape.compile(model, (torch.zeros(2, 8),))
x = torch.linspace(-1, 1, 40).reshape(5, 8)
result = program(x)
assert torch.allclose(result, model(x).detach(), atol=1e-6)
print(objects_emitted(), built, program.report().kernels, program.report().launches, result.numpy().tobytes().hex())
"""


def test_a_warm_process_compiles_nothing(folder: Path) -> None:
    environment = {**os.environ, "ANYSHAPE_CACHE": str(folder)}

    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    cold, warm = run(), run()
    assert int(cold[0]) > 0
    assert int(warm[0]) == 0
    assert int(cold[1]) > 0
    assert int(warm[1]) == 0, "no op of any dialect is made, so no graph is built and no pass runs"
    assert warm[2:] == cold[2:], "the same kernels and the same bytes"
    program, microkernels = largest_first(folder)
    program.write_bytes(flip(program.read_bytes(), 500))
    again = run()
    assert 0 < int(again[0]) < int(cold[0]), "a damaged program is compiled again, its micro-kernels are not"
    assert again[1:] == cold[1:], "all is built again, to the same bytes"
    for path in (program, microkernels):
        path.unlink()
    assert run() == cold
