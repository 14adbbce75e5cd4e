"""A folder for each graph that could not be compiled because of a mistake of ours, and its replay.

    crash.json      the options, the versions, the line of the user's program, the error; the types of the weights
    graph.mlir      the `dhlo` graph as it was handed to the compiler; or, where making that failed:
    graph.json      PyTorch's graph of ATen ops; if making it so failed, TorchDynamo's, unless it has what JSON cannot say
    fx.txt          PyTorch's graph, for people
    traceback.txt   where it failed

No weights are kept: a replay has zeros in their places. Nothing is unpickled or executed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module, metadata
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError

from anyshape.codegen.llvm import host_target
from anyshape.dialects.arrays import ArrayType, ConstantStore
from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.dialects.dtypes import BY_NAME, dtype_of_numpy
from anyshape.driver.build import compile_objects, load_program
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.private_folder import PrivateFolder
from anyshape.support.errors import ArtifactError
from anyshape.support.options import Options
from anyshape.support.trace import Trace

Json: TypeAlias = Any

FOLDERS = 32
"""Folders that are kept; the oldest go first."""

_PLACE = "crashes"
_FORMAT = 2
_PACKAGES = ("anyshape", "xdsl", "xtc-mlir-python-bindings", "llvmlite", "numpy", "torch")
_REPLAYED = ("precision", "pack_weights", "pack_budget_bytes", "threads")
"""Options that decide what code comes out; a replay takes them from the folder, and verifies after every pass."""


@dataclass(frozen=True)
class Crash:
    """A graph and the error that compiling it ended in.

    Attributes:
        error: `Type: text`.
        location: the first line of the user's program in the graph.
        options: those of `Options` that decide what code comes out.
        names: the graph's inputs.
        weights: name -> dtype and shape of each array that the graph takes from the store.
        live: the names of those among them that may change.
    """

    error: str
    location: str | None
    options: Mapping[str, Any]
    names: tuple[str, ...]
    weights: Mapping[str, tuple[str, tuple[int, ...]]]
    live: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(
        cls, error: BaseException, location: str | None, options: Options, names: Sequence[str], store: ConstantStore
    ) -> Crash:
        types = {**{name: ArrayType.of(array) for name, array in store.items()}, **store.live}
        return cls(
            f"{type(error).__name__}: {error}",
            location,
            {name: getattr(options, name) for name in _REPLAYED},
            tuple(names),
            {name: (dtype_of_numpy(type_.dtype).name, type_.shape) for name, type_ in types.items()},
            tuple(store.live),
            {package: _version(package) for package in _PACKAGES},
        )

    def store(self) -> ConstantStore:
        """Zeros in the place of the weights."""
        store = ConstantStore()
        for name, (dtype, shape) in self.weights.items():
            numpy_dtype = BY_NAME[dtype].numpy
            if name in self.live:
                store.add_live(name.removeprefix("live:"), ArrayType(np.dtype(numpy_dtype), tuple(shape)))
            else:
                store.put(name, np.zeros(shape, numpy_dtype))
        return store


def write_crash(
    options: Options, error: BaseException, crash: Crash, graph: ModuleOp | Json | None, fx_text: str
) -> Path | None:
    """Write the folder, in `crashes` under the folder of dumps or of the cache.

    Args:
        graph: the `dhlo` graph, or PyTorch's as `record_graph` or `record_traced` gives it; None where that could not be made.
        fx_text: PyTorch's graph.

    Returns:
        The folder; None where there is no place for it.
    """
    base = options.dump or options.cache
    if base is None:
        return None
    kind, text = ("mlir", _text_of(graph)) if isinstance(graph, ModuleOp) else ("json", json.dumps(graph, indent=1))
    said = fx_text if graph is None else text
    name = hashlib.sha256(f"{crash.error.splitlines()[0]}\n{said}".encode()).hexdigest()[:16]
    place = base / _PLACE
    folder = PrivateFolder(place / name)
    try:
        for each in (base, place):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_room(place)
        if graph is not None:
            folder.write(f"graph.{kind}", text.encode())
        folder.write("fx.txt", fx_text.encode())
        folder.write("traceback.txt", "".join(traceback.format_exception(error)).encode())
        folder.write(
            "crash.json",
            json.dumps({"format": _FORMAT, "has_graph": graph is not None, **asdict(crash)}, indent=1).encode(),
        )
    except (OSError, ValueError):
        return None  # what failed first is what the user must hear of
    return folder.path


def replay_command(folder: Path) -> str:
    """The command line that compiles the graph of a folder again."""
    return f"anyshape replay {quote(str(folder))}"


def read_crash(folder: Path) -> tuple[Crash, ModuleOp | Json | None]:
    """What `write_crash` wrote; its graph is None where none could be written.

    Raises:
        ArtifactError: the folder is none of its folders, or of another format.
    """
    files = PrivateFolder(folder)
    try:
        files.check()
        head, text, record = map(files.read, ("crash.json", "graph.mlir", "graph.json"))
        if head is None:
            raise ValueError("crash.json is missing")
        values: dict[str, Any] = dict(json.loads(head))
        has_graph = values.pop("has_graph")
        crash = _decode(values)
        if has_graph is False:
            return crash, None
        if text is None and record is None:
            raise ValueError("the graph is missing")
        if text is None:
            return crash, json.loads(record or b"")
        module = Parser(new_context(), text.decode(), str(folder / "graph.mlir")).parse_module()
        module.verify()
        verify_graph(module)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ParseError, DiagnosticException) as error:
        raise ArtifactError(
            "this is no folder with a failure to replay", where=folder, got=str(error).strip() or type(error).__name__,
            expected="a folder that a failed compilation wrote, private to its owner",
        ) from error  # fmt: skip
    return crash, module


def replay(crash: Crash, graph: ModuleOp | Json, log: Sequence[str] = (), dump: Path | None = None) -> None:
    """Compile the graph again, for this machine, and load it; or lower it, or trace it, again. What fails is raised as it is."""
    if not isinstance(graph, ModuleOp):
        traced = import_module("anyshape.frontends.torch.dynamo.traced")
        if traced.is_traced(graph):
            traced.trace_again(graph)
        else:
            import_module("anyshape.frontends.torch.dynamo.record").lower_again(graph)
        return
    options = Options(verify=True, log=tuple(log), dump=dump).updated(crash.options)
    machine, target = calibrated_machine(None), host_target()
    built = compile_objects(graph, crash.names, crash.store(), options, Trace.from_options(options), machine, target)
    if not crash.live:
        load_program(built, options.threads or 0)


def _decode(values: dict[str, Any]) -> Crash:
    if values.pop("format") != _FORMAT:
        raise ValueError("it was written by another version")
    options = {name: values["options"][name] for name in _REPLAYED}
    Options().updated(options)
    weights = {
        str(name): (BY_NAME[dtype].name, tuple(map(_decode_size, shape)))
        for name, (dtype, shape) in values["weights"].items()
    }
    return Crash(
        str(values["error"]), values["location"], options, tuple(map(str, values["names"])), weights,
        tuple(map(str, values["live"])), values["versions"],
    )  # fmt: skip


def _decode_size(size: Any) -> int:
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"a weight cannot have the size {size!r}")
    return size


def _text_of(module: ModuleOp) -> str:
    text = StringIO()
    Printer(text, print_debuginfo=True).print_op(module)
    return text.getvalue() + "\n"


def _make_room(place: Path) -> None:
    folders = sorted((each for each in place.iterdir() if each.is_dir() and not each.is_symlink()), key=_age)
    for folder in folders[: max(0, len(folders) - FOLDERS + 1)]:
        shutil.rmtree(folder, ignore_errors=True)


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


__all__ = ["FOLDERS", "Crash", "read_crash", "replay", "replay_command", "write_crash"]
