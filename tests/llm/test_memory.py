"""Memory of a process that loads a model and writes a token, seen from outside: no second copy of the weights is ever there, neither
as memory nor as pages of the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.random_llama import Sizes, write

MEASURED = """\
import sys
from pathlib import Path
from anyshape.llm.language_model import load
from anyshape.support.options import Options

options = Options(threads=1, cache=Path(sys.argv[2]))
load(sys.argv[1], context=64, options=options).generate("a", max_tokens=1).__next__()
"""


def peak_bytes(*arguments: str) -> int:
    """The largest resident size that a process ever had, pages of files among it."""
    with subprocess.Popen([sys.executable, "-c", MEASURED, *arguments], stderr=subprocess.PIPE, text=True) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
    return 1024 * usage.ru_maxrss


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units")
def test_loading_holds_one_copy_of_the_weights(tmp_path: Path) -> None:
    large = Sizes(width=512, layers=12, heads=8, kv_heads=8, hidden=1536, vocabulary=8000, context=64)
    small = Sizes(width=64, layers=1, heads=2, kv_heads=2, hidden=96, vocabulary=400, context=64)
    sizes: list[int] = []
    peaks: list[int] = []
    for name, model in (("large", large), ("small", small)):
        path = tmp_path / f"{name}.gguf"
        write(path, model)
        sizes.append(path.stat().st_size)
        # The second process finds the program in the cache, so that no compilation is measured.
        peaks.append([peak_bytes(str(path), str(tmp_path / "cache")) for _ in range(2)][-1])
    assert sizes[0] > 24 << 20
    # What is packed at a time, a piece of code and the embeddings' pages come on top of the weights.
    assert peaks[0] - peaks[1] <= 1.3 * (sizes[0] - sizes[1]), (peaks, sizes)
