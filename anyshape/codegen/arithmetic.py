"""`ArithmeticBuilder`: computation on scalars and vectors as MLIR ops; `Builder` adds memory and control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from anyshape.codegen.mlir import (
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    Attribute,
    Operand,
    Type,
    Value,
    arith,
    bit_width,
    element_of,
    ir,
    is_float_type,
    lanes_of,
    llvm,
    math,
    signed_value,
    vector,
)
from anyshape.support.errors import CodegenError

NanRule = Literal["either", "propagate"]


class ArithmeticBuilder:
    """The part of `Builder` that computes: types, constants, arithmetic, comparison, conversion.

    Must be made and used inside an entered `ModuleBuilder`. Misuse (mixed element types, unknown predicates) raises
    `CodegenError` at once, rather than later in the verifier, so that the Python stack shows the culprit.

    Args:
        features: instruction-set extensions, under LLVM's names, that code may count on; others are left to LLVM.
    """

    def __init__(self, features: frozenset[str] = frozenset()) -> None:
        self.features = features
        self.f16: Type = ir.F16Type.get()
        self.bf16: Type = ir.BF16Type.get()
        self.f32: Type = ir.F32Type.get()
        self.f64: Type = ir.F64Type.get()
        self.i1: Type = ir.IntegerType.get_signless(1)
        self.i8: Type = ir.IntegerType.get_signless(8)
        self.i16: Type = ir.IntegerType.get_signless(16)
        self.i32: Type = ir.IntegerType.get_signless(32)
        self.i64: Type = ir.IntegerType.get_signless(64)
        self.index: Type = ir.IndexType.get()
        self.ptr: Type = llvm.PointerType.get()

    # ---- types ---------------------------------------------------------------------------------------------------

    def type(self, name: str) -> Type:
        """The scalar type of that MLIR name (`"f32"`, `"i1"`, `"ptr"`, …)."""
        known = {"ptr": self.ptr, "index": self.index}.get(name)
        if known is not None:
            return known
        try:
            return ir.Type.parse(name)
        except ir.MLIRError as error:
            raise CodegenError(f"{name!r} is not a machine type: {error}") from error

    def vector_type(self, element: Type, width: int | None) -> Type:
        """`vector<width x element>`; the element type itself when `width` is None."""
        return element if width is None else ir.VectorType.get([width], element)

    def element_type(self, value: Value) -> Type:
        """The element type of a vector, or the type of a scalar."""
        return element_of(value.type)

    def width(self, value: Value) -> int | None:
        """Number of lanes, or None for a scalar."""
        return lanes_of(value.type)

    def with_element(self, value: Value, element: Type) -> Type:
        """The type of `value` with another element type: same number of lanes."""
        return self.vector_type(element, lanes_of(value.type))

    def is_float(self, value: Value) -> bool:
        """True for floating-point scalars and vectors."""
        return is_float_type(value.type)

    def intrinsic(self, name: str, result: Type, arguments: Sequence[Value]) -> Value:
        """Call an LLVM intrinsic."""
        return llvm.call_intrinsic(result, ir.StringAttr.get(name), list(arguments), [], [])

    # ---- constants -----------------------------------------------------------------------------------------------

    def const(self, type_: Type, number: int | float | bool) -> Value:
        """A constant of a scalar type, or splat over a vector type."""
        element = element_of(type_)
        if is_float_type(element):
            attribute: Attribute = ir.FloatAttr.get(element, float(number))
        else:
            attribute = ir.IntegerAttr.get(element, signed_value(element, int(number)))
        if lanes_of(type_) is not None:
            attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
        return arith.ConstantOp(type_, attribute).result

    def splat(self, number: int | float, element: Type, width: int | None) -> Value:
        """A constant in every lane (a scalar constant when `width` is None)."""
        return self.const(self.vector_type(element, width), number)

    def constant_vector(self, element: Type, numbers: Sequence[int]) -> Value:
        """A vector of integer constants, one a lane."""
        type_ = self.vector_type(element, len(numbers))
        values: list[Attribute] = [ir.IntegerAttr.get(element, signed_value(element, number)) for number in numbers]
        return arith.ConstantOp(type_, ir.DenseElementsAttr.get(values, type_)).result

    def lane_numbers(self, width: int, element: Type | None = None) -> Value:
        """The vector 0, 1, … width − 1 of integers (i64 unless told)."""
        return self.constant_vector(self.i64 if element is None else element, range(width))

    def undefined(self, type_: Type) -> Value:
        """A poison value: only to be overwritten."""
        return llvm.mlir_poison(type_)

    def broadcast(self, x: Value, width: int | None) -> Value:
        """A scalar in every lane; unchanged if it has that width already."""
        if lanes_of(x.type) == width:
            return x
        return vector.broadcast(self.vector_type(element_of(x.type), width), x)

    # ---- arithmetic ----------------------------------------------------------------------------------------------

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        if isinstance(x, int | float):
            if isinstance(y, int | float):
                raise CodegenError(f"two Python numbers ({x}, {y}) do not say which machine type is meant")
            return self.const(y.type, x), y
        if isinstance(y, int | float):
            return x, self.const(x.type, y)
        if x.type == y.type:
            return x, y
        wide_x, wide_y = lanes_of(x.type), lanes_of(y.type)
        if element_of(x.type) == element_of(y.type) and (wide_x is None) != (wide_y is None):
            return (self.broadcast(x, wide_y), y) if wide_x is None else (x, self.broadcast(y, wide_x))
        raise CodegenError(f"operands have types {x.type} and {y.type}, expected the same element type and lanes")

    def _binary(self, x: Operand, y: Operand, floating: Any, integer: Any) -> Value:
        x, y = self._pair(x, y)
        operation = floating if is_float_type(x.type) else integer
        if operation is None:
            raise CodegenError(f"operation is not defined on {x.type}")
        return operation(x, y)

    def add(self, x: Operand, y: Operand) -> Value:
        """x + y"""
        return self._binary(x, y, arith.addf, arith.addi)

    def sub(self, x: Operand, y: Operand) -> Value:
        """x − y"""
        return self._binary(x, y, arith.subf, arith.subi)

    def mul(self, x: Operand, y: Operand) -> Value:
        """x · y"""
        return self._binary(x, y, arith.mulf, arith.muli)

    def div(self, x: Operand, y: Operand, *, signed: bool = True) -> Value:
        """x / y; integers truncate towards zero and must not divide by zero."""
        return self._binary(x, y, arith.divf, arith.divsi if signed else arith.divui)

    def rem(self, x: Operand, y: Operand, *, signed: bool = True) -> Value:
        """The remainder of `div`, with the sign of x (C's `fmod` and `%`)."""
        return self._binary(x, y, arith.remf, arith.remsi if signed else arith.remui)

    def floordiv(self, x: Operand, y: Operand) -> Value:
        """Signed integer quotient rounded down."""
        return self._binary(x, y, None, self._floordiv)

    def _floordiv(self, x: Value, y: Value) -> Value:
        quotient = arith.divsi(x, y)
        inexact = self.cmp("ne", arith.remsi(x, y), 0)
        signs_differ = self.cmp("slt", self.xor(x, y), 0)
        return self.select(self.and_(inexact, signs_differ), self.sub(quotient, 1), quotient)

    def ceildiv(self, x: Operand, y: Operand) -> Value:
        """Signed integer quotient rounded up."""
        x, y = self._pair(x, y)
        return self.neg(self.floordiv(self.neg(x), y))

    def neg(self, x: Value) -> Value:
        """−x"""
        return arith.negf(x) if is_float_type(x.type) else arith.subi(self.const(x.type, 0), x)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x · y + z with one rounding; at least one of x and y is a value."""
        x, y = self._pair(x, y)
        x, z = self._pair(x, z)
        x, y = self._pair(x, y)
        return math.fma(x, y, z)

    def minimum(self, x: Operand, y: Operand, *, signed: bool = True, nan: NanRule = "propagate") -> Value:
        """The smaller; floats: `propagate` gives NaN if any is NaN, `either` gives y if any is NaN (one
        instruction)."""
        floating = arith.minimumf if nan == "propagate" else self._smaller
        return self._binary(x, y, floating, arith.minsi if signed else arith.minui)

    def maximum(self, x: Operand, y: Operand, *, signed: bool = True, nan: NanRule = "propagate") -> Value:
        """The larger; floats: `propagate` gives NaN if any is NaN, `either` gives y if any is NaN (one instruction)."""
        floating = arith.maximumf if nan == "propagate" else self._larger
        return self._binary(x, y, floating, arith.maxsi if signed else arith.maxui)

    def _smaller(self, x: Value, y: Value) -> Value:
        return self.select(self.cmp("olt", x, y), x, y)

    def _larger(self, x: Value, y: Value) -> Value:
        return self.select(self.cmp("ogt", x, y), x, y)

    def sqrt(self, x: Value) -> Value:
        """√x, correctly rounded."""
        return math.sqrt(x)

    def absolute(self, x: Value) -> Value:
        """|x|"""
        return math.absf(x) if is_float_type(x.type) else math.absi(x)

    def floor(self, x: Value) -> Value:
        """x rounded towards −∞."""
        return math.floor(x)

    def ceil(self, x: Value) -> Value:
        """x rounded towards +∞."""
        return math.ceil(x)

    def trunc(self, x: Value) -> Value:
        """x rounded towards zero."""
        return math.trunc(x)

    def round_even(self, x: Value) -> Value:
        """x rounded to the nearest integer, ties to even."""
        return math.roundeven(x)

    def copysign(self, x: Operand, y: Operand) -> Value:
        """|x| with the sign bit of y."""
        return math.copysign(*self._pair(x, y))

    # ---- integers ------------------------------------------------------------------------------------------------

    def and_(self, x: Operand, y: Operand) -> Value:
        """Bitwise and."""
        return self._binary(x, y, None, arith.andi)

    def or_(self, x: Operand, y: Operand) -> Value:
        """Bitwise or."""
        return self._binary(x, y, None, arith.ori)

    def xor(self, x: Operand, y: Operand) -> Value:
        """Bitwise exclusive or."""
        return self._binary(x, y, None, arith.xori)

    def not_(self, x: Value) -> Value:
        """Every bit flipped."""
        return self.xor(x, -1)

    def shl(self, x: Operand, y: Operand) -> Value:
        """x shifted left; y below the bit width."""
        return self._binary(x, y, None, arith.shli)

    def shr(self, x: Operand, y: Operand) -> Value:
        """x shifted right, zeros come in."""
        return self._binary(x, y, None, arith.shrui)

    def sar(self, x: Operand, y: Operand) -> Value:
        """x shifted right, the sign comes in."""
        return self._binary(x, y, None, arith.shrsi)

    # ---- choice --------------------------------------------------------------------------------------------------

    def cmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """`i1` per lane. Integers: eq ne slt sle sgt sge ult …; floats: oeq olt … (false on NaN), une ult … (true on
        NaN)."""
        x, y = self._pair(x, y)
        names = FLOAT_PREDICATES if is_float_type(x.type) else INTEGER_PREDICATES
        if predicate not in names:
            raise CodegenError(f"comparison {predicate!r} of {x.type}: expected one of {', '.join(names)}")
        return (arith.cmpf if is_float_type(x.type) else arith.cmpi)(names.index(predicate), x, y)

    def is_nan(self, x: Value) -> Value:
        """True where x is NaN."""
        return self.cmp("uno", x, x)

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """x where the condition holds, else y; the condition is one `i1` or one a lane."""
        x, y = self._pair(x, y)
        lanes = lanes_of(condition.type)
        if lanes is not None and lanes_of(x.type) is None:
            x, y = self.broadcast(x, lanes), self.broadcast(y, lanes)
        return arith.select(condition, x, y)

    # ---- conversion ----------------------------------------------------------------------------------------------

    def convert(self, x: Value, element: Type, *, signed: bool = True) -> Value:
        """Numeric conversion lane by lane.

        Float to integer truncates towards zero, and is undefined out of range; anything to `i1` is x ≠ 0. f16 and bf16
        meet other types than f32 by way of f32 (as PyTorch does), so that no target needs library calls for them.
        """
        source = element_of(x.type)
        if source == element:
            return x
        if bit_width(element) == 1:
            return self.cmp("une" if is_float_type(source) else "ne", x, 0)
        for narrow, other in ((source, element), (element, source)):
            if is_float_type(narrow) and bit_width(narrow) == 16 and other != self.f32:
                return self.convert(self.convert(x, self.f32, signed=signed), element, signed=signed)
        target = self.with_element(x, element)
        signed = signed and bit_width(source) > 1
        from_float, to_float = is_float_type(source), is_float_type(element)
        if from_float and to_float:
            return self._convert_float(x, target)
        if from_float:
            return (arith.fptosi if signed else arith.fptoui)(target, x)
        if to_float:
            return (arith.sitofp if signed else arith.uitofp)(target, x)
        if isinstance(source, ir.IndexType) or isinstance(element, ir.IndexType):
            return (arith.index_cast if signed else arith.index_castui)(target, x)
        if bit_width(element) < bit_width(source):
            return arith.trunci(target, x)
        return (arith.extsi if signed else arith.extui)(target, x)

    def _convert_float(self, x: Value, target: Type) -> Value:
        if bit_width(element_of(target)) > bit_width(element_of(x.type)):
            return arith.extf(target, x)
        if element_of(target) != self.bf16:
            return arith.truncf(target, x)
        # Most targets have no instruction for bf16, and x86's flushes denormals: round to nearest even on the bits.
        bits = self.bitcast(x, self.i32)
        odd = self.and_(self.shr(bits, 16), 1)
        rounded = self.shr(self.add(bits, self.add(odd, 0x7FFF)), 16)
        quiet_nan = self.or_(self.shr(bits, 16), 0x40)
        return self.bitcast(self.convert(self.select(self.is_nan(x), quiet_nan, rounded), self.i16), self.bf16)

    def bitcast(self, x: Value, element: Type) -> Value:
        """The same bits as another element type of the same size."""
        return arith.bitcast(self.with_element(x, element), x)
