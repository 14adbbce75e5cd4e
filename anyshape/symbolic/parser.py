"""Reads the text of sizes and relations (the grammar is in `text.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from anyshape.symbolic.errors import SizeParseError
from anyshape.symbolic.expr import RESERVED_WORDS, Size, size_max, size_min
from anyshape.symbolic.relation import RELATION_OPS, Relation

_TOKEN = re.compile(r"\s*(?:(?P<int>\d+)|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)|(?P<mark>==|!=|<=|[-+*(),<]))")
_DEEPEST = 200  # nesting accepted before the text is refused: hostile text must not exhaust the stack


def parse_size(text: str) -> Size:
    """The size that `text` denotes, in normal form; `parse_size(str(x)) is x`.

    Raises:
        SizeParseError: `text` is not a size.
        SizeOverflowError, SizeDivisionError: as the operators that the text names.
    """
    parser = _Parser(text)
    size = parser.sum()
    parser.finish()
    return size


def parse_relation(text: str) -> Relation:
    """The relation that `text` denotes, one of `a == b`, `a != b`, `a <= b`, `a < b`."""
    parser = _Parser(text)
    lhs = parser.sum()
    for op in RELATION_OPS:
        if parser.accept(op):
            relation = Relation(lhs, op, parser.sum())
            parser.finish()
            return relation
    raise parser.error(f"one of {', '.join(RELATION_OPS)}")


class _Parser:
    """Recursive descent, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokenise(text))
        self.position = 0
        self.depth = 0

    @staticmethod
    def _tokenise(text: str) -> list[tuple[str, str, int]]:
        tokens: list[tuple[str, str, int]] = []
        offset, end = 0, len(text.rstrip())
        while offset < end:
            match = _TOKEN.match(text, offset)
            if match is None or match.lastgroup is None:
                what = f"unexpected character at {offset} in {text!r}"
                raise SizeParseError(f"size text: {what}; use + - * floordiv mod min max ( )")
            tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            offset = match.end()
        return tokens

    def error(self, expected: str) -> SizeParseError:
        got = repr(self.tokens[self.position][1]) if self.position < len(self.tokens) else "the end"
        at = self.tokens[self.position][2] if self.position < len(self.tokens) else len(self.text)
        return SizeParseError(f"size text: expected {expected}, got {got} at {at} in {self.text!r}")

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.position += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(repr(token))

    def finish(self) -> None:
        if self.position < len(self.tokens):
            raise self.error("the end")

    def sum(self) -> Size:
        total = self.product()
        while True:
            if self.accept("+"):
                total = total + self.product()
            elif self.accept("-"):
                total = total - self.product()
            else:
                return total

    def product(self) -> Size:
        value = self.unary()
        while True:
            if self.accept("*"):
                value = value * self.unary()
            elif self.accept("floordiv"):
                value = value // self.unary()
            elif self.accept("mod"):
                value = value % self.unary()
            else:
                return value

    def unary(self) -> Size:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise SizeParseError(f"size text: nested deeper than {_DEEPEST} levels; bind parts to symbols of their own")
        value = self._negated() if self.accept("-") else self.primary()
        self.depth -= 1
        return value

    def _negated(self) -> Size:
        kind = self.tokens[self.position][0] if self.position < len(self.tokens) else ""
        # A literal is read with its sign: -2**63 is a size and 2**63 is not.
        return self._literal(-1) if kind == "int" else -self.unary()

    def _literal(self, sign: int) -> Size:
        digits = self.tokens[self.position][1]
        self.position += 1
        # Longer than 20 digits is outside 64 bits whatever they are; int() of hostile text is slow, and limited.
        return Size.const(sign * int(digits[:20] if len(digits) > 20 else digits))

    def primary(self) -> Size:
        if self.accept("("):
            value = self.sum()
            self.expect(")")
            return value
        if self.position == len(self.tokens):
            raise self.error("a size")
        kind, word, _ = self.tokens[self.position]
        if kind == "int":
            return self._literal(1)
        if kind == "word" and word == "min":
            return self.call(size_min)
        if kind == "word" and word == "max":
            return self.call(size_max)
        if kind != "word" or word in RESERVED_WORDS:
            raise self.error("a size")
        self.position += 1
        return Size.symbol(word)

    def call(self, function: Callable[..., Size]) -> Size:
        self.position += 1
        self.expect("(")
        arguments = [self.sum()]
        while self.accept(","):
            arguments.append(self.sum())
        self.expect(")")
        return function(*arguments)
