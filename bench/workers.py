"""Each engine in a process of its own: no thread pool of one spins beside another's, and a cold start is cold."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from anyshape.support.errors import AnyshapeError
from bench.models import MODELS, Shape


@dataclass(frozen=True)
class Answer:
    """Outputs of one call, for comparison."""

    arrays: list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class FirstAnswer:
    """Seconds from a loaded model to the first answer."""

    imports: float
    """Of the engine's own modules."""
    capture: float
    """Of the model as a graph, by its framework."""
    rest: float
    """Compilation, and the call."""

    @property
    def all(self) -> float:
        return self.imports + self.capture + self.rest


class Worker:
    """A process that holds one loaded engine and does what it is told over a pipe; idle, it sleeps in a read.

    Args:
        cache: a folder for what the engine keeps between processes; None is an empty one.
    """

    def __init__(self, name: str, model: str, threads: int, onnx_file: Path, cache: Path | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, name, model, threads, onnx_file, cache), daemon=True
        )
        self.name = name
        self._process.start()
        theirs.close()
        self._receive()

    def first_answer(self, shape: Shape) -> FirstAnswer:
        """The first answer, compilation included. Once a worker."""
        return self._ask("first_answer", shape)

    def block(self, shape: Shape, warm_up: int, calls: int) -> list[float]:
        """Seconds of each of `calls` calls in a row, after `warm_up` that are not timed."""
        return self._ask("block", shape, warm_up, calls)

    def stream(self, shapes: Sequence[Shape]) -> tuple[float, float]:
        """Seconds for requests of these shapes one after another, and how many of them went into capturing the model again."""
        return self._ask("stream", list(shapes))

    def answer(self, shape: Shape) -> list[np.ndarray[Any, Any]]:
        """The outputs for the inputs of a shape, which are the same in every worker."""
        return self._ask("answer", shape).arrays

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.terminate()

    def _ask(self, *message: Any) -> Any:
        self._pipe.send(message)
        return self._receive()

    def _receive(self) -> Any:
        try:
            kind, value = self._pipe.recv()
        except EOFError as error:
            raise AnyshapeError("an engine's process died", where=self.name) from error
        if kind == "error":
            raise AnyshapeError("an engine failed", where=self.name, got=value)
        return value


def _serve(pipe: Connection, name: str, model: str, threads: int, onnx_file: Path, cache: Path | None) -> None:
    """The worker's side: load, then one reply for each message until the pipe closes."""
    try:
        from bench.engines import ENGINES

        with tempfile.TemporaryDirectory() as empty:
            session = _Session(ENGINES[name](MODELS[model], threads, onnx_file, cache or Path(empty)))
            pipe.send(("value", None))
            while True:
                method, *arguments = pipe.recv()
                pipe.send(("value", getattr(session, method)(*arguments)))
    except EOFError:
        return
    except Exception:
        pipe.send(("error", traceback.format_exc(limit=-6)))


class _Session:
    """What a worker answers with; the methods are those of `Worker`."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._inputs = engine.model.inputs
        engine.load()

    def first_answer(self, shape: Shape) -> FirstAnswer:
        inputs = self._inputs(shape)
        start = time.perf_counter()
        for module in self._engine.imports:
            import_module(module)
        imported = time.perf_counter()
        self._engine.prepare()
        self._engine(inputs)
        seconds = time.perf_counter() - imported
        capture = self._engine.capture_seconds
        return FirstAnswer(imported - start, capture, seconds - capture)

    def block(self, shape: Shape, warm_up: int, calls: int) -> list[float]:
        inputs = self._inputs(shape)
        for _ in range(warm_up):
            self._engine(inputs)
        return [self._timed(inputs) for _ in range(calls)]

    def stream(self, shapes: Iterable[Shape]) -> tuple[float, float]:
        before = self._engine.capture_seconds
        requests = [self._inputs(shape) for shape in shapes]
        seconds = sum(self._timed(inputs) for inputs in requests)
        return seconds, self._engine.capture_seconds - before

    def answer(self, shape: Shape) -> Answer:
        return Answer([np.array(array) for array in self._engine(self._inputs(shape))])

    def _timed(self, inputs: Any) -> float:
        start = time.perf_counter()
        self._engine(inputs)
        return time.perf_counter() - start
