"""Pages whose code blocks run: what they print is compared with the block that follows."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```(?:text|mlir)\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


def run_blocks(text: str, namespace: dict[str, object]) -> list[tuple[re.Match[str], str]]:
    """Each code block with what it prints, all in one namespace."""
    printed: list[tuple[re.Match[str], str]] = []
    for block in BLOCK.finditer(text):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block["code"], "page", "exec"), namespace)  # the page is ours
        printed.append((block, output.getvalue()))
    return printed


def with_outputs(text: str, printed: list[tuple[re.Match[str], str]]) -> str:
    """The page with the outputs that were printed in place of those that it has."""
    for block, output in reversed(printed):
        if block["output"] is not None:
            start, end = block.span("output")
            text = text[:start] + output + text[end:]
    return text


def check_page(name: str, request: pytest.FixtureRequest, *, blocks: int) -> dict[str, object]:
    """Run a page of at least `blocks` blocks, assert that it prints what it says, and return what it defined.

    With `--update-goldens` the page is rewritten first.
    """
    path = DOCS / name
    text = path.read_text()
    namespace: dict[str, object] = {"__name__": path.stem}
    printed = run_blocks(text, namespace)
    assert len(printed) >= blocks
    assert all(block["output"] is not None or not output for block, output in printed), (
        "a block prints and shows nothing"
    )
    updated = with_outputs(text, printed)
    if request.config.getoption("--update-goldens"):
        path.write_text(updated)
    assert updated == text
    return namespace
