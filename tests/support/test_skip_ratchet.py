"""The ratchet on skips in `tests/conftest.py`, run on small suites of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.mark.parametrize(("allowed", "exit_code"), [(0, 1), (1, 0), (2, 0)])
def test_a_run_fails_when_it_skips_more_than_allowed(tmp_path: Path, allowed: int, exit_code: int) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "skips.txt").write_text(f"{allowed}\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_runs(): pass\n\n@pytest.mark.skip(reason='why')\ndef test_skipped(): pass\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "CI": "true"},
    )
    assert result.returncode == exit_code, result.stdout + result.stderr
    assert f"skips: 1 (allowed: {allowed}" in result.stdout
