"""A language model in memory: its program, loaded on the file's weights, and caches that grow as tokens are read."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from anyshape import llm
from anyshape.dialects.arrays import Array
from anyshape.driver.ahead import model_parts
from anyshape.driver.graphs import built_graph, load_graph, of_length
from anyshape.driver.stored import Summary
from anyshape.llm import checkpoint, gguf
from anyshape.llm.checkpoint import Checkpoint
from anyshape.llm.config import DecoderConfig, Logits
from anyshape.llm.families import Description, Family, family_of, family_of_type
from anyshape.llm.families.checkpoints import described
from anyshape.llm.gguf import GGUFFile
from anyshape.llm.key_cache import DEFAULT, CacheType, KeyCache
from anyshape.llm.weights import WeightForms
from anyshape.runtime import Program, numpy_adaptor
from anyshape.support.errors import ArgumentError, FileFormatError
from anyshape.support.options import Options
from anyshape.support.trace import Trace

_SHOWN = 5


@dataclass(frozen=True)
class Model:
    """A model whose program is loaded.

    Attributes:
        config: what the model is.
        program: see `build_decoder`.
        summary: its kernels, sizes and guards.
        cache: how a layer keeps keys and values.
    """

    config: DecoderConfig
    program: Program
    summary: Summary
    cache: KeyCache

    @classmethod
    def open(
        cls, path: Path | str, options: Options | None = None, *, logits: Logits = "last", cache: CacheType = DEFAULT
    ) -> Model:
        """Load a GGUF file, or a folder that `transformers` saved, and compile its program, or fetch that from the cache.

        Args:
            logits: of which positions logits are computed.
            cache: the type that keys and values are kept in.

        Raises:
            FileFormatError: it is not sound, or not of a known family.
        """
        if Path(path).is_dir():
            return cls.of_checkpoint(checkpoint.open(path), options, logits=logits, cache=cache)
        return cls.of_file(gguf.open(path), options, logits=logits, cache=cache)

    @classmethod
    def of_file(
        cls, file: GGUFFile, options: Options | None = None, *, logits: Logits = "last", cache: CacheType = DEFAULT
    ) -> Model:
        """The model of an open GGUF file; see `open`."""
        family = family_of(file.architecture, str(file.path))
        forms = WeightForms(file.tensors, str(file.path))
        return cls.of_family(
            family, Description(file.metadata, forms, family.neighbours), options, logits=logits, cache=cache
        )

    @classmethod
    def of_checkpoint(
        cls, folder: Checkpoint, options: Options | None = None, *, logits: Logits = "last", cache: CacheType = DEFAULT
    ) -> Model:
        """The model of an open folder; see `open`."""
        family = family_of_type(folder.architecture, str(folder.path))
        metadata, tensors = described(folder, family.architecture)
        return cls.of_family(
            family, Description(metadata, WeightForms(tensors, str(folder.path))), options, logits=logits, cache=cache
        )

    @classmethod
    def of_family(
        cls,
        family: Family,
        description: Description,
        options: Options | None = None,
        *,
        logits: Logits = "last",
        cache: CacheType = DEFAULT,
    ) -> Model:
        """The model that a family makes of a description."""
        config = family.configure(description)
        family.declare(config, description)
        unused = description.weights.unused()
        if unused:
            raise FileFormatError(
                f"the model has tensors that {family.architecture} does not use", where=description.metadata.source,
                got=", ".join(unused[:_SHOWN]) + (", …" if len(unused) > _SHOWN else ""),
            )  # fmt: skip
        return cls.of(config, description.weights, options, logits=logits, cache=cache)

    @classmethod
    def of(
        cls,
        config: DecoderConfig,
        weights: WeightForms,
        options: Options | None = None,
        *,
        logits: Logits = "last",
        cache: CacheType = DEFAULT,
    ) -> Model:
        """The model with this configuration and these weights."""
        options = options or Options.from_environment()
        trace = Trace.from_options(options)
        form = KeyCache(cache, config.kv_heads, config.head)
        text = "\n".join((config.text(), weights.text(), logits, cache))

        parts = model_parts(weights.multiplied_formats(), options.activations, {"int8": "i8"}.get(cache, cache))
        built = built_graph(
            text, weights.types(), lambda: llm.build_decoder(config, weights, form, logits), options, trace, parts
        )
        with trace.stage("load"):
            program = load_graph(built, lambda name: weights[name].array(), options)
        trace.log("compile", trace.times_text)
        return cls(config, program, built.summary, form)

    @property
    def token_bytes(self) -> int:
        """Bytes of the caches for each token of a sequence."""
        return self.cache.token_bytes * len(self.config.layers)

    def session(self, batch: int = 1, capacity: int | None = None) -> Session:
        """A conversation of its own, with room for `capacity` tokens (by default the model's context)."""
        return Session(self, batch, capacity or self.config.context)


class Session:
    """The state of one sequence, or of several of one length: the caches of the tokens read so far.

    Attributes:
        tokens: those of the first sequence, as far as they were read.
        capacity: tokens for which there is room.
    """

    def __init__(self, model: Model, batch: int, capacity: int) -> None:
        config = model.config
        self._model = model
        self.tokens: list[int] = []
        self.capacity = capacity
        arrays = model.cache.arrays(batch, capacity) * len(config.layers)
        self._caches = [_zeros(shape, dtype) for shape, dtype in arrays]
        self._cache_views = [numpy_adaptor.view_of(cache) for cache in self._caches]
        self._past_view = numpy_adaptor.view_of(of_length(1))
        self._is_long = False

    @property
    def length(self) -> int:
        """Tokens read."""
        return len(self.tokens)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` tokens."""
        del self.tokens[count:]

    def read(self, tokens: Sequence[int] | Array) -> Array:
        """Append tokens [s] or [b, s]; returns the logits f32 [b, 1 or s, vocabulary].

        Raises:
            ArgumentError: there is no room for the tokens, or there are none.
            IndexOutOfRange: a token is not in the vocabulary.
        """
        array = np.array(tokens, np.int64, ndmin=2)
        count = array.shape[1]
        if count == 0 or self.length + count > self.capacity:
            raise ArgumentError(
                "there are no tokens" if count == 0 else "the context is full",
                got=f"{count} tokens after {self.length}", expected=f"1 to {self.capacity - self.length}",
            )  # fmt: skip
        turning = self._model.config.turning
        if turning is not None:
            is_long = self.length + count > turning
            if self.length and is_long != self._is_long:
                return self._read_again(array)
            self._is_long = is_long
        byte, _, strides, code = self._past_view
        inputs = [numpy_adaptor.view_of(array), (byte, (self.length,), strides, code), *self._cache_views]
        (logits,) = numpy_adaptor.run_views(self._model.program, inputs)
        self.tokens += array[0].tolist()
        return logits

    def _read_again(self, array: Array) -> Array:
        """Append tokens with which positions are rotated otherwise: keys that were cached are of no use."""
        if len(array) != 1:
            raise ArgumentError(
                "several sequences pass the length up to which positions are rotated by short factors",
                got=f"{array.shape[1]} tokens after {self.length}", expected=f"{self._model.config.turning}",
                remedy="read them at once",
            )  # fmt: skip
        whole, count = [*self.tokens, *array[0].tolist()], array.shape[1]
        self.keep(0)
        return self.read(whole)[:, -count:]


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros in small pages, which take memory as they are written: a huge page would hold a whole head's room at its first token."""
    size = dtype.itemsize * prod(shape)
    if size == 0:
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype).reshape(shape)


__all__ = ["Model", "Session"]
