"""The contract of a `dhlo` op: one class holds everything that any layer knows about it.

A class names its op and its front-end spellings in its header and gives

* `infer`      the type rule on symbolic sizes,
* `reference`  a numpy implementation, the oracle of every test,
* how it is computed, one of
    - `scalar`   an elementwise op: the result from the operands' scalars at the same point,
    - `element`  an indexing op: the result's element at any point, from operand elements at other points,
    - `expand`   a composite: the same value by simpler ops,
    - `PLANNED`  a structured op (reduction, product, attention) for which `kernels/` has a plan; it may have `expand`
                 too, for a target without that plan,
* methods marked `@law`, its simplifications, each with its law and an example beside it (`laws.py`),
* `SAMPLES`    typed example calls, from which the test matrix is derived.

`__init_subclass__` rejects an incomplete op when it is defined.
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType, NoneAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.printer import Printer
from xdsl.traits import Pure, is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.arrays import Array
from anyshape.dialects.dhlo.attributes import AttributeValue, attribute_of, dims_attribute, value_of
from anyshape.dialects.dhlo.laws import Law, Simplified, law, laws_of_class
from anyshape.dialects.dhlo.parts import AxisPart
from anyshape.dialects.dtypes import FLOATS, DType
from anyshape.dialects.scalars import Scalars
from anyshape.dialects.sizes import Tensor, dtype_of, sizes_of, tensor
from anyshape.symbolic import Facts, Size, SizeLike

Environment: TypeAlias = Mapping[str, int]


class Points(Protocol):
    """What an op may ask for while one element of its result is computed (built by `kernels/`)."""

    @property
    def scalars(self) -> Scalars: ...

    def operand(self, index: int, at: Sequence[SSAValue]) -> SSAValue:
        """The element of operand `index` at these index values, one for each of its axes."""
        ...

    def size(self, size: SizeLike) -> SSAValue:
        """A size expression as an index value."""
        ...

    def guarded(self, condition: SSAValue) -> AbstractContextManager[None]:
        """Inside, elements are read only where the i1 `condition` holds; elsewhere a read gives zero."""
        ...

    def part(self, index: SSAValue) -> AxisPart | None: ...  # what is known of where an index of a padded axis lies

    def check_index(self, index: SSAValue, bound: Size) -> SSAValue:
        """i1 `0 <= index < bound`; where false, the launch fails with an error naming index, bound and source line, but not inside
        `guarded` where its condition does not hold."""
        ...


@dataclass(frozen=True)
class Oracle:
    """A PyTorch call that says the same as a sample: `target(*arguments, **keywords)`; `Arg(i)` is operand i.

    Of several results, it is number `result`.
    """

    target: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: int = 0


@dataclass(frozen=True)
class Arg:
    """Operand `index`, in an `Oracle`."""

    index: int


@dataclass(frozen=True)
class Sym:
    """The run-time value of a size expression, in an `Oracle`."""

    text: str


@dataclass(frozen=True)
class Sample:
    """One example call.

    `operands`: sizes of each operand, as size texts; `dtypes`: the element types to try for operands that do not fix
    their own in `fixed`; `values`: how operand i is filled, `"normal"` by default, or `"positive"`, `"unit"` (in (−1, 1)),
    `"nonzero"`, `"small"` (in [0, 4)), `"zero"`, `"true"` (ones), `"dominant"` (matrices whose diagonal outweighs their
    rows), or `"index:SIZE"` (integers in [0, SIZE)); `minimum`: symbols whose size must be at least this for the call to be
    defined.
    """

    operands: tuple[tuple[SizeLike | str, ...], ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    dtypes: tuple[DType, ...] = FLOATS
    fixed: Mapping[int, DType] = field(default_factory=dict[int, DType])
    values: Mapping[int, str] = field(default_factory=dict[int, str])
    minimum: Mapping[str, int] = field(default_factory=dict[str, int])
    oracle: Oracle | None = None


class DhloOp(IRDLOperation, ABC):
    """Base of all `dhlo` ops: variadic tensor operands and results, the attributes of `DEFAULTS`, one printer and parser."""

    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(Pure())

    SAMPLES: ClassVar[tuple[Sample, ...]] = ()
    ATEN: ClassVar[tuple[str, ...]] = ()
    """ATen overloads (`"aten.tanh.default"`) that say exactly this op: its operands first, then its attributes by name."""
    DEFAULTS: ClassVar[Mapping[str, AttributeValue]] = {}
    """Every attribute that the op has, with its default; `REQUIRED` marks one without."""
    SIZE_ATTRIBUTES: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold sizes: they are stored as `dhlo.dims` even when every size is a constant."""
    PLANNED: ClassVar[bool] = False
    LAWS: ClassVar[tuple[Law, ...]] = ()
    OPS: ClassVar[dict[str, type[DhloOp]]] = {}
    """Every op, by its name."""
    OVERLOADS: ClassVar[dict[str, type[Elementwise]]] = {}
    """The op that each ATen overload names, where the mapping is one to one."""

    def __init_subclass__(cls, *, op: str | None = None, aten: Sequence[str] = (), **keywords: Any) -> None:
        """`class Tanh(Unary, op="tanh", aten=["aten.tanh.default"])`; without `op` the class is abstract."""
        super().__init_subclass__(**keywords)
        if op is not None:
            cls.name = f"dhlo.{op}"
            cls.ATEN = tuple(aten)  # pyright: ignore[reportConstantRedefinition] - set once, here
            _check_contract(cls)
            cls.LAWS = laws_of_class(cls)  # pyright: ignore[reportConstantRedefinition]
        # xDSL takes an unannotated class field for an IR field; our constants are typed where DhloOp declares them.
        constants = {key: "ClassVar[Any]" for key in vars(cls) if key.isupper()}
        cls.__annotations__ = {**constants, **vars(cls).get("__annotations__", {})}
        if op is None:
            return
        irdl_op_definition(cls)
        DhloOp.OPS[cls.name] = cls
        if issubclass(cls, Elementwise):
            DhloOp.OVERLOADS.update(dict.fromkeys(cls.ATEN, cls))

    # -- the contract ---------------------------------------------------------------------------------------------

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        """The result types from the operand types and the attributes' Python values.

        Raises VerifyException that names the op, the operand and the axis when the rule is broken. Sizes that must be
        equal must be the same expression: whoever builds the op has simplified them with the facts at hand.
        """
        raise VerifyException(f"{cls.name} has no type rule")

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        """The results by numpy; `env` gives the value of every size symbol."""
        raise VerifyException(f"{self.name} has no reference")

    def scalar(self, scalars: Scalars, *operands: SSAValue) -> SSAValue:
        """One element of the result from the operands' elements at the same point."""
        raise VerifyException(f"{self.name} is not elementwise")

    def element(self, points: Points, at: Sequence[SSAValue]) -> SSAValue:
        """The element of the result at index values `at`."""
        return self.scalar(points.scalars, *(points.operand(i, at) for i in range(len(self.inputs))))

    def expand(self, rewriter: PatternRewriter) -> Sequence[SSAValue]:
        """The same results by simpler ops, inserted before this op."""
        raise VerifyException(f"{self.name} has no expansion")

    @property
    def has_plan(self) -> bool:
        """Whether `kernels/` plans this very op; where it does not, a `PLANNED` op is computed by its expansion."""
        return self.PLANNED

    @property
    def bound_symbols(self) -> frozenset[str]:
        """Size symbols to which running this op gives their values: none but for a data-dependent op."""
        return frozenset()

    @property
    def has_effect(self) -> bool:
        """Whether the op stays where nothing reads its results: it binds size symbols, or may refuse the call."""
        return not is_side_effect_free(self)

    @law(
        "an op without elements -> constant of the same sizes",
        example=lambda g: g(DhloOp.OPS["dhlo.negate"], g.input("m", 0)),
    )
    def without_elements(self, builder: Builder, facts: Facts) -> Simplified:
        constant = DhloOp.OPS["dhlo.constant"]
        if isinstance(self, constant) or len(self.results) != 1:
            return None
        zero = Size.const(0)
        if all(facts.simplify(size) is not zero for size in self.result_sizes):
            return None
        return constant.emit(builder, value=0, dtype=self.result_dtype, sizes=self.result_sizes)

    # -- construction ---------------------------------------------------------------------------------------------

    @classmethod
    def build_from(cls, *operands: SSAValue | Operation, location: Any = None, **attributes: AttributeValue) -> Self:
        """A new op with inferred result types. Attributes are given as Python values."""
        unknown = attributes.keys() - cls.DEFAULTS.keys()
        if unknown:
            raise VerifyException(f"{cls.name} has no attribute {sorted(unknown)}; it has {sorted(cls.DEFAULTS)}")
        merged = {**cls.DEFAULTS, **attributes}
        missing = [key for key, value in merged.items() if value is REQUIRED]
        if missing:
            raise VerifyException(f"{cls.name} needs the attributes {missing}")
        values = [SSAValue.get(operand) for operand in operands]
        stored = {key: attribute_of(value) for key, value in cls.canonical(merged).items()}
        results = cls.infer([value.type for value in values], {k: value_of(v) for k, v in stored.items()})  # pyright: ignore[reportArgumentType]
        op = cls(operands=[values], result_types=[list(results)], attributes=stored)
        if location is not None:
            op.location = location
        return op

    @classmethod
    def canonical(cls, attributes: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
        """The attributes in the one form in which they are stored, so that equal ops have equal text."""
        lists = {key: dims_attribute(attributes[key]) for key in cls.SIZE_ATTRIBUTES}
        return {**attributes, **lists} if lists else attributes

    @classmethod
    def of(cls, *operands: SSAValue | Operation, **attributes: AttributeValue) -> Self:
        """Short for `build_from` where there is no source location."""
        return cls.build_from(*operands, **attributes)

    @classmethod
    def emit(cls, builder: Builder, *operands: SSAValue | Operation, **attributes: AttributeValue) -> SSAValue:
        """Build the op, insert it at the builder's insertion point and return its only result."""
        return builder.insert(cls.build_from(*operands, **attributes)).result

    def attribute(self, key: str) -> Any:
        """The Python value of one attribute."""
        return value_of(self.attributes[key])

    def integer(self, key: str) -> int:
        """The value of an attribute that is an int."""
        return self.attribute(key)

    def integers(self, key: str) -> tuple[int, ...]:
        """The value of an attribute that is a list of ints, such as axes."""
        return self.attribute(key)

    def size_list(self, key: str) -> tuple[Size, ...]:
        """The value of an attribute in `SIZE_ATTRIBUTES`."""
        return self.attribute(key)

    @property
    def attribute_values(self) -> dict[str, Any]:
        return {key: value_of(self.attributes[key]) for key in self.DEFAULTS}

    @property
    def result(self) -> SSAValue:
        """The only result."""
        (only,) = self.results
        return only

    def operand_sizes(self, index: int = 0) -> tuple[Size, ...]:
        return sizes_of(self.operands[index].type)

    def operand_dtype(self, index: int = 0) -> DType:
        return dtype_of(self.operands[index].type)

    @property
    def result_sizes(self) -> tuple[Size, ...]:
        return sizes_of(self.results[0].type)

    @property
    def result_dtype(self) -> DType:
        return dtype_of(self.results[0].type)

    # -- verification and text ------------------------------------------------------------------------------------

    def verify_(self) -> None:
        missing = self.DEFAULTS.keys() - self.attributes.keys()
        if missing:
            raise VerifyException(f"{self.name} lacks the attributes {sorted(missing)}")
        expected = self.infer([v.type for v in self.operands], self.attribute_values)  # pyright: ignore[reportArgumentType]
        got = [result.type for result in self.results]
        if list(expected) != got:
            raise VerifyException(
                f"{self.name}: result types should be {list(map(str, expected))}, got {list(map(str, got))}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        order = {key: number for number, key in enumerate(self.DEFAULTS)}
        shown = {
            key: self.attributes[key]
            for key in sorted(self.attributes, key=lambda key: (order.get(key, len(order)), key))
            if not self._is_default(key, self.attributes[key])
        }
        if shown:
            printer.print_string(" " if self.operands else "")
            printer.print_attr_dict(shown)
        printer.print_string(" : ")
        printer.print_function_type([value.type for value in self.operands], self.result_types)

    def _is_default(self, key: str, attribute: Attribute) -> bool:
        return self.DEFAULTS.get(key, REQUIRED) is not REQUIRED and self._default_attribute(key) == attribute

    @classmethod
    def _default_attribute(cls, key: str) -> Attribute:
        default = cls.DEFAULTS[key]
        return dims_attribute(default) if key in cls.SIZE_ATTRIBUTES else attribute_of(default)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_function_type()
        values = parser.resolve_operands(operands or [], type.inputs.data, position)
        for key, default in cls.DEFAULTS.items():
            if default is not REQUIRED:
                attributes.setdefault(key, cls._default_attribute(key))
        return cls(operands=[values], result_types=[list(type.outputs.data)], attributes=attributes)


REQUIRED: Any = NoneAttr()
"""Marks an attribute without a default in `DhloOp.DEFAULTS`."""


def _overrides(cls: type[DhloOp], method: str) -> bool:
    return getattr(cls, method) is not getattr(DhloOp, method)


def _check_contract(cls: type[DhloOp]) -> None:
    """Raise TypeError when an op class lacks a part of the contract."""
    ways = [way for way in ("scalar", "element", "expand") if _overrides(cls, way)]
    if cls.PLANNED:
        ways.append("PLANNED")
    problems: list[str] = []
    if not ways:
        problems.append("says in no way how it is computed (scalar, element, expand or PLANNED)")
    if "scalar" in ways and len(ways) > 1 and "expand" in ways:
        problems.append("is both elementwise and composite")
    if cls.infer.__func__ is DhloOp.infer.__func__:  # pyright: ignore[reportFunctionMemberAccess]
        problems.append("has no infer")
    if not _overrides(cls, "reference"):
        problems.append("has no reference")
    if not cls.SAMPLES:
        problems.append("has no SAMPLES")
    if not inspect.getdoc(cls) or cls.__doc__ is None:
        problems.append("has no docstring with its formula")
    derived_from = [base.__name__ for base in cls.__mro__[1:] if base in DhloOp.OPS.values()]
    if derived_from:
        problems.append(
            f"derives from the op {derived_from[0]}; only a family, a class without a name, can be derived from"
        )
    if cls.name in DhloOp.OPS:
        problems.append("has a name that another op has")
    if cls.ATEN and not issubclass(cls, Elementwise):
        problems.append("names ATen overloads, which only elementwise ops can; a front end lowers the others")
    problems += [
        f"names {name}, as {DhloOp.OVERLOADS[name].name} does" for name in cls.ATEN if name in DhloOp.OVERLOADS
    ]
    if problems:
        raise TypeError(f"op {cls.name} ({cls.__module__}.{cls.__qualname__}) " + "; ".join(problems))


# -- elementwise families --------------------------------------------------------------------------------------------


def same_sizes(name: str, operands: Sequence[Tensor]) -> tuple[Size, ...]:
    """The sizes that all operands share; VerifyException names the first axis where they differ."""
    first = sizes_of(operands[0])
    for position, other in enumerate(operands[1:], 1):
        sizes = sizes_of(other)
        if len(sizes) != len(first):
            raise VerifyException(f"{name}: operand {position} has rank {len(sizes)}, operand 0 has rank {len(first)}")
        for axis, (a, b) in enumerate(zip(first, sizes, strict=True)):
            if a != b:
                raise VerifyException(f"{name}: axis {axis} of operand {position} has size {b}, of operand 0 size {a}")
    return first


def same_dtype(name: str, operands: Sequence[Tensor], allowed: Callable[[DType], bool] | None = None) -> DType:
    """The dtype that all operands share; VerifyException names the operand that differs or a dtype not allowed."""
    first = dtype_of(operands[0])
    for position, other in enumerate(operands[1:], 1):
        if dtype_of(other) != first:
            raise VerifyException(f"{name}: operand {position} is {dtype_of(other)}, operand 0 is {first}")
    if allowed is not None and not allowed(first):
        raise VerifyException(f"{name} does not take {first}")
    return first


class Elementwise(DhloOp, ABC):
    """result[i…] = f(operands[i…]): operands share sizes and dtype, the result has them too unless `result_dtype_of` differs."""

    ARITY: ClassVar[int] = 1
    COST: ClassVar[int] = 1
    """Simple operations for one element of the result, operands not counted: fusion weighs recomputing against a round
    trip through the cache."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        """Whether operands may have this dtype."""
        return True

    @classmethod
    def result_dtype_of(cls, operand: DType) -> DType:
        return operand

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        if len(operands) != cls.ARITY:
            raise VerifyException(f"{cls.name} takes {cls.ARITY} operands, got {len(operands)}")
        dtype = same_dtype(cls.name, operands, cls.takes)
        return [tensor(cls.result_dtype_of(dtype), same_sizes(cls.name, operands))]


def function_type(inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> FunctionType:
    return FunctionType.from_lists(list(inputs), list(outputs))
