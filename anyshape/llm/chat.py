"""Chat templates: from messages to the text that the model was trained on.

    template = from_metadata(file.metadata, tokenizer)
    prompt = template.render([{"role": "user", "content": "Hello"}])

A template is a Jinja program by a stranger, so it runs in a sandbox (`chat_sandbox.py`). It gets what `transformers` gives it:
`messages`, `tools`, `add_generation_prompt`, `bos_token`, `eos_token`, `raise_exception`, `strftime_now`, the filter `tojson`,
`break` and `continue` in loops, and the tag `generation`.
"""

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime

from jinja2 import TemplateError as JinjaError

from anyshape.llm import strict_json
from anyshape.llm.chat_sandbox import Budget, Sandbox, TemplateRaised
from anyshape.llm.checkpoint import Checkpoint
from anyshape.llm.metadata import Metadata
from anyshape.llm.tokenizer import Tokenizer
from anyshape.support.errors import FileFormatError, TemplateError

LARGEST_TEMPLATE = 1 << 18
KEY = "tokenizer.chat_template"


class ChatTemplate:
    """A compiled template. Raises TemplateError, when made, for what is no template or uses what the sandbox does not have.

    Args:
        source: the template.
        bos, eos: the texts of the tokens that begin and end a text; empty where the model has none.
        where: the file, for errors.
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = "", where: str = "chat template") -> None:
        if len(source) > LARGEST_TEMPLATE:
            raise TemplateError(
                "the chat template is too long",
                where=where,
                got=f"{len(source)} characters",
                expected=f"at most {LARGEST_TEMPLATE}",
            )
        self._where = where
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._sandbox = Sandbox()
        self._lock = threading.Lock()
        try:
            self._template = self._sandbox.template(source)
        except (JinjaError, SyntaxError, RecursionError, MemoryError, ValueError) as error:
            raise self._failed("the chat template cannot be compiled", error) from error

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, object]] | None = None,
        now: datetime | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> str:
        """The text of a conversation.

        Args:
            messages: each with `role` and `content` at least; texts, numbers, lists and dicts only.
            add_generation_prompt: end with what the model's answer begins with.
            tools: descriptions of functions that the model may call, where the template knows of them.
            now: what `strftime_now` takes for the time; None for the clock's.
            variables: others that this template takes, such as `enable_thinking`.

        The text often begins with BOS: encode it with `special=False`. Raises TemplateError where the template raises an error of
        its own, does what the sandbox denies, or takes more than the limits of `Budget`.
        """
        given = {
            **self._tokens, **(variables or {}), "messages": list(messages), "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }  # fmt: skip
        with self._lock:
            try:
                return self._sandbox.render(self._template, given, Budget(now=now))
            except TemplateRaised as error:
                raise TemplateError(
                    "the chat template refuses these messages", where=self._where, got=str(error)
                ) from error
            except (
                JinjaError,
                ArithmeticError,
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
                RecursionError,
            ) as error:
                raise self._failed("the chat template failed", error) from error

    def _failed(self, message: str, error: BaseException) -> TemplateError:
        line = getattr(error, "lineno", None)
        where = self._where if line is None else f"{self._where}, line {line}"
        got = f"{type(error).__name__}: {str(error)[:300]}"
        return TemplateError(
            message, where=where, got=got, remedy="give a prompt without a template, or another template"
        )


def from_metadata(metadata: Metadata, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template in a GGUF file, None where it has none."""
    if KEY not in metadata:
        return None
    return _made(metadata.text(KEY), tokenizer, metadata.source)


def from_checkpoint(checkpoint: Checkpoint, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template in a folder: `chat_template.jinja`, or the entry in `tokenizer_config.json`; None where there is none."""
    name = "chat_template.jinja"
    if checkpoint.has(name):
        try:
            return _made(checkpoint.content(name).decode(), tokenizer, str(checkpoint.path / name))
        except UnicodeDecodeError as error:
            raise FileFormatError("the chat template is not UTF-8", where=checkpoint.path / name) from error
    name = "tokenizer_config.json"
    config = checkpoint.json(name) if checkpoint.has(name) else None
    found = config.get("chat_template") if strict_json.is_object(config) else None
    if strict_json.is_array(found):
        named = {entry.get("name"): entry.get("template") for entry in found if strict_json.is_object(entry)}
        found = named.get("default")
    return _made(found, tokenizer, str(checkpoint.path / name)) if isinstance(found, str) else None


def _made(source: str, tokenizer: Tokenizer, where: str) -> ChatTemplate:
    bos, eos = ("" if token is None else tokenizer.token_text(token) for token in (tokenizer.bos, tokenizer.eos))
    return ChatTemplate(source, bos=bos, eos=eos, where=f"{where}, chat template")
