"""The loop that writes text: read the prompt, then choose a token, give its text, and read it, until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from anyshape.llm.model import Session
from anyshape.llm.sampling import Sampler, Sampling
from anyshape.llm.tokenizer import TextStream
from anyshape.support.errors import ArgumentError

Finish = Literal["length", "end", "stop", "context"]
"""Why a text ended: as many tokens as were asked for, the model's end token, a stop string, no room left in the context."""


class StopStrings:
    """Text that comes in pieces, held back as long as a stop string may have begun in it.

    Args:
        strings: what ends the text; empty ones are refused with ArgumentError.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        if isinstance(strings, str) or not all(strings):
            raise ArgumentError("stop strings are a list of texts that are not empty", where="stop", got=repr(strings))
        self._strings = tuple(strings)
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """(text that is certain, whether a stop string followed it)."""
        self._held += piece
        found = [at for string in self._strings if (at := self._held.find(string)) >= 0]
        if found:
            text, self._held = self._held[: min(found)], ""
            return text, True
        kept = max((self._overlap(string) for string in self._strings), default=0)
        text = self._held[: len(self._held) - kept]
        self._held = self._held[len(self._held) - kept :]
        return text, False

    def flush(self) -> str:
        """What was held back, once no more comes."""
        text, self._held = self._held, ""
        return text

    def _overlap(self, string: str) -> int:
        """The length of the longest end of the text held that a stop string begins with."""
        longest = min(len(string) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(string[:n])), 0)


@dataclass(frozen=True)
class Limits:
    """When a text ends, besides at its end.

    Args:
        max_tokens: most tokens that are written; None is no limit but the context.
        stop: strings that end the text; they are not part of it.
        shift: whether a full context loses its older half, but for the first `keep` tokens, instead of ending the text.
        keep: tokens at the beginning that a shift keeps.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    shift: bool = False
    keep: int = 1

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 0:
            raise ArgumentError(
                "the number of tokens is negative", where="max_tokens", got=self.max_tokens, expected="0 or more"
            )


class Generation(Iterator[str]):
    """A text that is being written: an iterator of its pieces, one a token (a piece may be empty).

    Args:
        session: where the prompt is read to; what it has read already is the text before.
        prompt: tokens, at least one.
        stream: makes text of tokens.
        ends: tokens that end the text.
        sampling: how tokens are chosen; by default the likeliest.
        limits: when to end.

    Attributes:
        tokens: what was read and written, the prompt included.
        written: how many of them were written.
        finish: why the text ended; None while it has not.

    Raises:
        ArgumentError: there is no prompt, or it does not fit into the context.
    """

    def __init__(
        self,
        session: Session,
        prompt: Sequence[int],
        stream: TextStream,
        ends: frozenset[int],
        sampling: Sampling | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._session, self._stream, self._ends = session, stream, ends
        self._sampler = Sampler(sampling or Sampling())
        self._limits = limits or Limits()
        self._stops = StopStrings(self._limits.stop)
        self._unread: list[int] = list(prompt)
        self.tokens: list[int] = [*session.tokens, *prompt]
        self.written = 0
        self.finish: Finish | None = None
        if not prompt:
            raise ArgumentError("there is no prompt", where="prompt", expected="at least one token")
        if len(self.tokens) >= session.capacity:
            raise ArgumentError(
                "the prompt does not fit into the context",
                where="prompt", got=f"{len(self.tokens)} tokens", expected=f"fewer than {session.capacity}",
                remedy="shorten it, or load the model with a larger `context`",
            )  # fmt: skip

    def __next__(self) -> str:
        if self.finish is not None:
            raise StopIteration
        limit = self._limits.max_tokens
        if limit is not None and self.written >= limit:
            return self._end("length")
        if not self._make_room():
            return self._end("context")
        logits = self._session.read(self._unread)
        token = self._sampler.choose(logits[0, -1], self.tokens)
        self._unread = [token]
        if token in self._ends:
            return self._end("end")
        self.tokens.append(token)
        self.written += 1
        piece, stopped = self._stops.push(self._stream.push(token))
        if stopped:
            self.finish = "stop"
        elif self.written == limit:
            piece += self._end("length")
        return piece

    def _end(self, reason: Finish) -> str:
        """What was held back; a text that ends between two tokens has no further piece but this."""
        self.finish = reason
        rest, stopped = self._stops.push(self._stream.flush())
        return rest if stopped else rest + self._stops.flush()

    def _make_room(self) -> bool:
        """Whether the tokens that are to be read fit, after a shift where that is wanted."""
        session = self._session
        if session.length + len(self._unread) <= session.capacity:
            return True
        if not self._limits.shift:
            return False
        keep = min(self._limits.keep, session.capacity // 4)
        self.tokens = [*self.tokens[:keep], *self.tokens[-(session.capacity // 2 - keep) :]]
        session.keep(0)
        self._unread = list(self.tokens)
        return True


__all__ = ["Finish", "Generation", "Limits", "StopStrings"]
