"""`docs/tour.md` says what the compiler prints: every block of code is run, and the block behind it is its output."""

import contextlib
import io
import re
from pathlib import Path

import pytest

TOUR = Path(__file__).resolve().parents[2] / "docs" / "tour.md"
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```(?:text|mlir)\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


def run_blocks(text: str) -> list[tuple[re.Match[str], str]]:
    """Each code block with what it prints, all in one namespace."""
    namespace: dict[str, object] = {}
    printed: list[tuple[re.Match[str], str]] = []
    for block in BLOCK.finditer(text):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block["code"], str(TOUR), "exec"), namespace)  # the page is ours
        printed.append((block, output.getvalue()))
    return printed


def with_outputs(text: str, printed: list[tuple[re.Match[str], str]]) -> str:
    """The page with the outputs that were printed in place of those that it has."""
    for block, output in reversed(printed):
        if block["output"] is not None:
            start, end = block.span("output")
            text = text[:start] + output + text[end:]
    return text


def test_the_tour_prints_what_it_says(request: pytest.FixtureRequest) -> None:
    text = TOUR.read_text()
    printed = run_blocks(text)
    assert len(printed) >= 8
    assert all(block["output"] is not None or not output for block, output in printed), (
        "a block prints and shows nothing"
    )
    updated = with_outputs(text, printed)
    if request.config.getoption("--update-goldens"):
        TOUR.write_text(updated)
    assert updated == text
