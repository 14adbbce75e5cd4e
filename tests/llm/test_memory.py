"""Memory of a process that loads a model and writes a token, seen from outside: no second copy of the weights is ever there."""

from __future__ import annotations

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

def kilobytes(name):
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0])

options = Options(threads=1, cache=Path(sys.argv[2]))
load(sys.argv[3], context=64, options=options).generate("a", max_tokens=1).__next__()
before = kilobytes("RssAnon")
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
model = load(sys.argv[1], context=64, options=options)
peak = kilobytes("VmHWM") - kilobytes("RssFile")
model.generate("a", max_tokens=1).__next__()
print(before, peak, kilobytes("RssAnon"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_holds_one_copy_of_the_weights(tmp_path: Path) -> None:
    large = Sizes(width=512, layers=12, heads=8, kv_heads=8, hidden=1536, vocabulary=8000, context=64)
    small = Sizes(width=64, layers=1, heads=2, kv_heads=2, hidden=96, vocabulary=400, context=64)
    paths = tmp_path / "large.gguf", tmp_path / "small.gguf"
    for path, sizes in zip(paths, (large, small), strict=True):
        write(path, sizes)
    done = None
    for _ in range(2):  # the second process finds the program in the cache, so that no compilation is measured
        command = [sys.executable, "-c", MEASURED, str(paths[0]), str(tmp_path / "cache"), str(paths[1])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done is not None
    before, peak, after = (1024 * int(word) for word in done.stdout.split())
    size = paths[0].stat().st_size
    assert size > 24 << 20
    assert peak - before <= 1.3 * size, (before, peak, after, size)
    assert after - before <= 1.15 * size
