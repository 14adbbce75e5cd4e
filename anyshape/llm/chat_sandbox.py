"""A Jinja in which a stranger's template can neither reach out nor run away.

Jinja's own immutable sandbox keeps templates from Python's internals and from changing what they are given. This one goes on
from there: attributes, filters and statements are those on the lists below and no others; and whatever a template does costs a
step, whatever it makes costs its length, both out of a budget, so that its time and its memory are bounded. The tree of a
template is rewritten where Jinja has no hook: loops, `~`, and literals of lists and dicts go through filters of ours.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any

from jinja2 import Template, Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from anyshape.llm import strict_json

_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (
        str,
        frozenset(
            [
                *("strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition"),
                *(
                    "startswith",
                    "endswith",
                    "find",
                    "rfind",
                    "index",
                    "count",
                    "replace",
                    "join",
                    "removeprefix",
                    "removesuffix",
                ),
                *(
                    "upper",
                    "lower",
                    "title",
                    "capitalize",
                    "isdigit",
                    "isnumeric",
                    "isalpha",
                    "isalnum",
                    "isspace",
                    "isupper",
                    "islower",
                ),
            ]
        ),
    ),
    (dict, frozenset(["get", "items", "keys", "values"])),
    (list, frozenset(["index", "count"])),
    (tuple, frozenset(["index", "count"])),
    (
        LoopContext,
        frozenset(
            [
                *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
                *("previtem", "nextitem", "cycle", "changed"),
            ]
        ),
    ),
)
_FILTERS = frozenset(
    [
        *(
            "abs",
            "capitalize",
            "count",
            "d",
            "default",
            "dictsort",
            "e",
            "escape",
            "first",
            "float",
            "indent",
            "int",
            "items",
            "join",
        ),
        *(
            "last",
            "length",
            "list",
            "lower",
            "map",
            "max",
            "min",
            "reject",
            "rejectattr",
            "replace",
            "reverse",
            "round",
            "safe",
        ),
        *("select", "selectattr", "sort", "string", "sum", "title", "trim", "unique", "upper"),
    ]
)
_STATEMENTS = (
    nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.AssignBlock, nodes.Macro, nodes.CallBlock,
    nodes.With,
    nodes.ExprStmt, nodes.Break, nodes.Continue, nodes.Template,
)  # fmt: skip
_LARGEST_NUMBER = 1 << 256
_ELEMENT = 64
"""What an element of a list costs, in characters."""
_LONGEST_RANGE = 10_000
_WIDEST_INDENT = 64


def _elements(values: Any) -> list[Any]:
    return list(values)


_CALL = 5
"""What a call of a macro or of one of our functions costs, in steps."""


class TemplateRaised(Exception):
    """The template called `raise_exception`."""


@dataclass
class Budget:
    """What one rendering may take; SecurityError where it is more.

    Args:
        steps: turns of loops, calls, filters and operators.
        work: characters and elements made, all together.
        size: characters and elements of any one value, and of the result.
        seconds: a last resort.
        now: the time that the template sees; None for the clock's.
    """

    steps: int = 100_000
    work: int = 1 << 26
    size: int = 1 << 22
    seconds: float = 5.0
    now: datetime | None = None

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.seconds

    def step(self, made: int = 0, steps: int = 1) -> None:
        """So many steps, which made so many characters or elements."""
        self.steps -= steps
        self.work -= made
        if made > self.size:
            raise SecurityError(f"a value of {made} characters or elements; at most {self.size} are allowed")
        if self.steps < 0 or self.work < 0 or time.monotonic() > self._until:
            raise SecurityError("the template takes too long: its budget of steps is used up")

    def checked(self, value: Any) -> Any:
        """A value that was made, after a step that costs what it takes to write it."""
        self.step(self.measure(value))
        return value

    def measure(self, value: Any) -> int:
        """Characters and elements of a value, written out; SecurityError for what is no value but a thing."""
        total, waiting = 0, [value]
        while waiting and total <= self.size:
            each: Any = waiting.pop()
            total += len(each) if isinstance(each, str) else _ELEMENT
            if strict_json.is_object(each):
                waiting.extend(each.keys())
                waiting.extend(each.values())
            elif isinstance(each, list | tuple):
                waiting.extend(_elements(each))
            elif isinstance(each, int | float) and not -_LARGEST_NUMBER < each < _LARGEST_NUMBER and each == each:
                raise SecurityError("a number is too large")
        return total


class _Generation(Extension):
    """`{% generation %}`: marks the model's own words for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Rewriter(NodeTransformer):
    """Refuses what is not on the lists, and leads through filters what Jinja does by itself."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, nodes.Stmt) and not isinstance(node, _STATEMENTS):
            raise SecurityError(f"line {node.lineno}: a template may not use {type(node).__name__.lower()}")
        if isinstance(node, nodes.Filter) and (node.name not in {*_FILTERS, "tojson"} or node.node is None):
            known = ", ".join(sorted(_FILTERS))
            raise SecurityError(
                f"line {node.lineno}: a template may not use the filter {node.name!r}; known: tojson, {known}"
            )
        if isinstance(node, nodes.For) and node.recursive:
            raise SecurityError(f"line {node.lineno}: a template may not use recursive loops")
        return super().visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "each")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List([*node.nodes], lineno=node.lineno), "concat")

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "checked")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "checked")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, "checked") if node.ctx == "load" else node


def _filtered(node: nodes.Node, name: str) -> nodes.Expr:
    # The names begin with a space, so that no template can write them.
    return nodes.Filter(node, f" {name}", [], [], None, None, lineno=node.lineno)


class Sandbox(ImmutableSandboxedEnvironment):
    """One template's environment. It renders one text at a time."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, cache_size=0, finalize=self._written,
            extensions=[LoopControlExtension, _Generation],
        )  # fmt: skip
        self._budget = Budget()
        self.filters = {name: self._counted(name, self.filters[name]) for name in _FILTERS}
        self.filters |= {"tojson": self._tojson, " each": self._each, " concat": self._joined, " checked": self._made}
        self.globals = {
            "range": self._range, "namespace": Namespace, "dict": dict,
            "raise_exception": self._raise, "strftime_now": self._strftime_now,
        }  # fmt: skip
        self.concat = self._joined  # pyright: ignore[reportAttributeAccessIssue, reportIncompatibleVariableOverride]

    def template(self, source: str) -> Template:
        """A template out of its text."""
        tree = _Rewriter().visit(self.parse(source))
        code = self.compile(tree)
        return Template.from_code(self, code, self.make_globals(None))

    def render(self, template: Template, given: Mapping[str, object], budget: Budget) -> str:
        """The text for these variables, which are copied."""
        self._budget = budget
        return template.render({name: self._plain(value, 0) for name, value in given.items()})

    # -- what a template may touch ----------------------------------------------------------------------------------------

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return any(isinstance(obj, kind) and attr in names for kind, names in _METHODS)

    def wrap_str_format(self, value: Any) -> None:
        """`str.format` is not offered: a width makes any length of text."""

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        raise SecurityError(f"a template may not use {attribute!r} of a {type(obj).__name__}")

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if name == "join" and args:
            args = (_elements(args[0]), *args[1:])
        if isinstance(owner, str):
            self._budget.step(self._method_size(owner, name, args))
        else:
            self._budget.step(steps=_CALL)
        value = super().call(context, function, *args, **kwargs)
        if isinstance(value, Namespace):
            self._budget.step(self._budget.measure([args, kwargs]))
            return value
        return self._budget.checked(value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator in {"*", "**", "%"} and not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise SecurityError(f"a template may use {operator!r} on numbers only")
        if operator == "**" and (abs(left) > 1 << 16 or abs(right) > 16):
            raise SecurityError("a power is too large")
        return self._budget.checked(super().call_binop(context, operator, left, right))

    # -- what stands for what Jinja does ----------------------------------------------------------------------------------

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter of Jinja's that takes a step; one that makes long texts out of short ones is asked how long before."""
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            value, rest = args[skipped], (*args[skipped + 1 :], *kwargs.values())
            if name == "join":
                value = list(value)
                separator = max((len(str(each)) for each in rest if not isinstance(each, int)), default=0)
                self._budget.step(self._budget.measure(value) + separator * len(value))
                args = (*args[:skipped], value, *args[skipped + 1 :])
            elif name == "replace":
                self._budget.step(self._method_size(str(self._budget.checked(value)), name, rest))
            elif name == "indent":
                if any(isinstance(each, str) or (isinstance(each, int) and each > _WIDEST_INDENT) for each in rest):
                    raise SecurityError(f"an indent is a number up to {_WIDEST_INDENT}")
                self._budget.step(len(str(value)) + _WIDEST_INDENT * str(value).count("\n"))
            elif name in {"string", "safe", "e", "escape", "trim", "upper", "lower", "title", "capitalize"}:
                self._budget.checked(value)
            return self._budget.checked(function(*args, **kwargs))

        return counted

    def _method_size(self, text: str, name: str, args: Sequence[Any]) -> int:
        """Characters that a method of a text makes at most."""
        if name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
            return len(text) + text.count(args[0]) * len(args[1])
        if name == "join" and args:
            return self._budget.measure(args[0]) + len(text) * len(args[0])  # pyright: ignore[reportUnknownArgumentType]
        return len(text)

    def _made(self, value: Any) -> Any:
        return self._budget.checked(value)

    def _each(self, values: Any) -> "_Counted":
        return _Counted(self._budget, values)

    def _joined(self, parts: Iterable[Any]) -> str:
        """Texts one after another, stopped as soon as they are too long."""
        texts: list[str] = []
        total = 0
        for part in parts:
            total += self._budget.measure(part)
            if total > self._budget.size:
                self._budget.step(total)
            texts.append(str(part))
        self._budget.step(total)
        return "".join(texts)

    def _written(self, value: Any) -> Any:
        """A value as it is written; a thing that is no value has no text."""
        if not isinstance(value, str | int | float | list | tuple | dict | Undefined | None):
            raise SecurityError(f"a template may not write a {type(value).__name__}")
        return self._budget.checked(value)  # pyright: ignore[reportUnknownArgumentType]

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        """As in `transformers`: JSON that is not escaped for HTML."""
        if indent is not None and not (isinstance(indent, int) and indent <= 16):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SecurityError("an indent of JSON is a number up to 16")
        self._budget.checked(value)
        if separators is not None:
            separators = tuple(str(each)[:8] for each in separators)
        text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        return str(self._budget.checked(text))

    def _range(self, *bounds: int) -> list[int]:
        found = range(*bounds)
        if len(found) > _LONGEST_RANGE:
            raise SecurityError(f"a range of {len(found)} numbers; at most {_LONGEST_RANGE} are allowed")
        return list(found)

    def _raise(self, message: object = "") -> None:
        raise TemplateRaised(str(message)[:1000])

    def _strftime_now(self, form: str) -> str:
        if len(form) > 200:
            raise SecurityError("a form of a time is too long")
        return (self._budget.now or datetime.now().astimezone()).strftime(form)

    def _plain(self, value: object, depth: int) -> object:
        """A copy of plain data."""
        if value is None or isinstance(value, str | int | float):
            return value
        if depth < 64 and strict_json.is_object(value):
            return {str(name): self._plain(each, depth + 1) for name, each in value.items()}
        if depth < 64 and isinstance(value, list | tuple):
            return [self._plain(each, depth + 1) for each in _elements(value)]
        raise TypeError(f"messages are texts, numbers, lists and dicts, not {type(value).__name__}")


class _Counted:
    """What a loop goes over; every turn is a step. It has a length where `loop.length` and `loop.last` can know one."""

    def __init__(self, budget: Budget, values: Any) -> None:
        self._budget = budget
        self._values = _elements(values)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        for value in self._values:
            self._budget.step()
            yield value
