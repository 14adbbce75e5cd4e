"""ONNX files out of packages, and nodes of the domain `com.microsoft`, one program each, beside ONNX Runtime: `python -m tests.onnx_files`.

The exit status is 1 where one cannot be compiled or a result is farther from ONNX Runtime's than its catalogue entry allows. A file
whose package is not installed is passed over, and said to be; so is a node for which ONNX Runtime has no kernel.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

import anyshape
from anyshape.support.errors import AnyshapeError, UnsupportedOps
from tests.onnx_files import contrib
from tests.onnx_files.catalogue import FILES, Array, RealFile


def main() -> int:
    """Run the files that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of the names of files; all files where there are none")
    names = parser.parse_args().names
    return 1 if _run_files(names) + _run_nodes(names) else 0


def _run_nodes(names: Sequence[str]) -> int:
    """How many cases of `contrib` are not right."""
    failed, counted = 0, Counter[str]()
    for case in contrib.all_cases():
        if names and not any(name in case.name for name in names):
            continue
        try:
            print(f"right    {case.name}: {contrib.compared(case)}", flush=True)
            counted["right"] += 1
        except contrib.NotImplementedByPeer as error:
            counted["skipped"] += 1
            print(f"skipped  {case.name}: {error}")
        except (AssertionError, AnyshapeError) as error:
            failed += 1
            print(f"FAILED   {case.name}: {_text(error)}", flush=True)
    print(f"contrib: {counted['right']} right, {counted['skipped']} that ONNX Runtime lacks, {failed} failed")
    return failed


def _run_files(names: Sequence[str]) -> int:
    """How many files are not right."""
    failed = 0
    for file in FILES:
        if names and not any(name in file.name for name in names):
            continue
        path = file.find()
        if path is None:
            print(f"skipped  {file.name}: {file.package} is not installed")
            continue
        try:
            print(f"right    {file.name}: {compared(file, path)}", flush=True)
        except (AssertionError, AnyshapeError) as error:
            failed += 1
            print(f"FAILED   {file.name}: {_text(error)}", flush=True)
    return failed


def _text(error: Exception) -> str:
    if isinstance(error, UnsupportedOps):
        return "; ".join(dict.fromkeys(f"{op.name}: {op.reason} [{op.location}]" for op in error.ops))[:1000]
    return " ".join(str(error).split())[:600]


def compared(file: RealFile, path: Path) -> str:
    """Compile the file once and compare all of its calls; says how near they came. AssertionError where one is not near enough."""
    start = time.perf_counter()
    program = anyshape.compile(path, dynamic_shapes=dict(file.dynamic_shapes) or None)
    seconds = time.perf_counter() - start
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst, sizes = 0.0, list[str]()
    for call in file.calls():
        expected = session.run(None, dict(call))
        results = program(**call) if all(name.isidentifier() for name in call) else program(*call.values())
        results = list(results) if isinstance(results, tuple) else [results]
        assert len(results) == len(expected), f"{len(results)} results instead of {len(expected)}"
        for got, want in zip(results, expected, strict=True):
            worst = max(worst, _distance(got, np.asarray(want), file))
        sizes.append("×".join(map(str, next(iter(call.values())).shape)))
    return f"{len(sizes)} calls ({', '.join(sizes)}), {worst:.1e} off at most, compiled in {seconds:.1f} s"


def _distance(got: Array, want: Array, file: RealFile) -> float:
    """The largest difference, relative to the largest element."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    )
    largest = float(np.abs(want).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=file.relative, atol=file.absolute * max(largest, 1e-30))
    return float(np.abs(got.astype(np.float64) - want).max(initial=0)) / max(largest, 1e-30)


if __name__ == "__main__":
    sys.exit(main())
