"""A language model as people use it: `load` gives an object that continues texts and answers messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, cast

from anyshape import llm
from anyshape.llm import checkpoint, gguf, gguf_tokenizer, json_tokenizer
from anyshape.llm.generate import Generation, Limits
from anyshape.llm.key_cache import DEFAULT, CacheType, cache_type
from anyshape.llm.model import Model, Session
from anyshape.llm.sampling import Sampling
from anyshape.llm.tokenizer import Tokenizer
from anyshape.support.errors import ArgumentError
from anyshape.support.options import Options

if TYPE_CHECKING:
    from anyshape.llm.chat import ChatTemplate

Message = Mapping[str, object]
"""`role` and `content` of a part of a conversation."""


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model.

    Attributes:
        model: its configuration and program.
        tokenizer: text to tokens and back.
        context: tokens that a text may have, prompt included.
        read_template: see `template`.
    """

    model: Model
    tokenizer: Tokenizer
    context: int
    read_template: Callable[[], ChatTemplate | None]

    @cached_property
    def template(self) -> ChatTemplate | None:
        """Writes conversations as the text that the model was trained on; None where the file has none.

        It is read when it is first asked for, since those who continue texts need neither it nor what compiles it.

        Raises:
            TemplateError: the file's template is not sound.
        """
        return self.read_template()

    def session(self) -> Session:
        """An empty conversation."""
        return self.model.session(capacity=self.context)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        shift: bool = False,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
    ) -> Generation:
        """Continue a text: an iterator of its pieces, one a token.

        Args:
            prompt: text, in which control tokens such as `<|im_start|>` stand for themselves, or tokens.
            max_tokens: most tokens that are written.
            stop: strings that end the text, or one.
            shift: see `Limits`.
            temperature, top_k, top_p, min_p, repetition_penalty, seed: see `Sampling`; by default the likeliest token is chosen.

        Raises:
            ArgumentError: the prompt is empty, or does not fit into the context.
            OptionError: an option of sampling is out of range.
        """
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else self._checked(prompt)
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        return self.continued(self.session(), tokens, Limits(max_tokens, stops, shift), sampling)

    def _checked(self, prompt: object) -> list[int]:
        """Tokens given as numbers; ArgumentError for what is none of the vocabulary."""
        size = self.tokenizer.size
        if isinstance(prompt, bytes | bytearray) or not isinstance(prompt, Iterable):
            raise ArgumentError("the prompt is neither a text nor tokens", where="prompt", got=type(prompt).__name__)
        tokens: list[int] = []
        for place, token in enumerate(cast("Iterable[object]", prompt)):
            if not isinstance(token, SupportsIndex) or not 0 <= index(token) < size:
                raise ArgumentError(
                    "the prompt has what is no token",
                    where=f"prompt[{place}]",
                    got=repr(token),
                    expected=f"0 to {size - 1}",
                )
            tokens.append(index(token))
        return tokens

    def answer(
        self,
        messages: Sequence[Message],
        session: Session,
        limits: Limits | None = None,
        sampling: Sampling | None = None,
    ) -> Generation:
        """Write the next message of a conversation. Of what the session has read, as much is kept as the conversation begins with.

        Raises:
            ArgumentError: the model has no chat template, or the conversation does not fit into the context.
            TemplateError: the template refuses the messages.
        """
        if self.template is None:
            raise ArgumentError(
                "the model has no chat template", expected="a model that was trained to answer", remedy="use `generate`"
            )
        tokens = self.tokenizer.encode(self.template.render(messages), special=False)
        pairs = zip(session.tokens, tokens[:-1], strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        session.keep(known)
        return self.continued(session, tokens[known:], limits, sampling)

    def continued(
        self, session: Session, tokens: Sequence[int], limits: Limits | None = None, sampling: Sampling | None = None
    ) -> Generation:
        """Continue what a session has read, and these tokens behind it."""
        return Generation(session, tokens, self.tokenizer.stream(), self.tokenizer.ends, sampling, limits)


def load(
    path: Path | str, *, context: int | None = None, cache: CacheType = DEFAULT, options: Options | None = None
) -> LanguageModel:
    """Load a GGUF file, or a folder that `transformers` saved, and compile its program, or fetch that from the cache.

    Args:
        path: the file or folder.
        context: tokens for which a conversation has room; by default as many as the model was made for.
        cache: the type in which keys and values of the tokens read are kept, f32, f16 or int8; see `anyshape.llm.key_cache`.
        options: see `anyshape.Options`; by default from the environment.

    Raises:
        FileFormatError: it is not sound, or not of a known family.
        ArgumentError: there is nothing at `path`, the model was not made for a context of that length, or there is no such cache.
    """
    cache = cache_type(cache)
    if not Path(path).exists():
        raise ArgumentError("there is no such model", where=path, expected="a GGUF file, or a folder with config.json")
    model, tokenizer, read_template = (_of_folder if Path(path).is_dir() else _of_file)(path, cache, options)
    longest = model.config.context
    if context is not None and not 1 <= context <= longest:
        raise ArgumentError("the model has no such context", where="context", got=context, expected=f"1 to {longest}")
    return LanguageModel(model, tokenizer, context or longest, read_template)


def _of_file(
    path: Path | str, cache: CacheType, options: Options | None
) -> tuple[Model, Tokenizer, Callable[[], ChatTemplate | None]]:
    file = gguf.open(path)
    model, tokenizer = Model.of_file(file, options, cache=cache), gguf_tokenizer.from_metadata(file.metadata)
    return model, tokenizer, lambda: llm.chat.from_metadata(file.metadata, tokenizer)


def _of_folder(
    path: Path | str, cache: CacheType, options: Options | None
) -> tuple[Model, Tokenizer, Callable[[], ChatTemplate | None]]:
    folder = checkpoint.open(path)
    model, tokenizer = Model.of_checkpoint(folder, options, cache=cache), json_tokenizer.from_checkpoint(folder)
    return model, tokenizer, lambda: llm.chat.from_checkpoint(folder, tokenizer)


__all__ = ["LanguageModel", "Message", "load"]
