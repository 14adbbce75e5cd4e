"""`Builder`: machine-level code as MLIR ops, on scalars and vectors alike.

Every method appends ops at the current insertion point of the entered `ModuleBuilder` and returns SSA values.
Operands may be Python numbers, which become constants of the other operand's type; a scalar beside a vector is
broadcast. Whether an operation is the integer or the floating-point one follows from the element type. Nothing here
allows fast-math, except `reduce`, whose order of additions is free.

| group | methods |
|---|---|
| types | `f16 bf16 f32 f64 i1 i8 i16 i32 i64 ptr index`, `type(name)`, `vector_type`, `with_element` |
| questions | `element_type`, `width`, `is_float` |
| escape | `intrinsic` |
| constants | `const`, `splat`, `lane_numbers`, `undefined` |
| arithmetic | `add sub mul div rem neg fma minimum maximum sqrt absolute floor ceil trunc round_even copysign` |
| integers | `and_ or_ xor not_ shl shr sar floordiv ceildiv`, `div rem` (with `signed`) |
| choice | `cmp`, `select`, `is_nan` |
| conversion | `convert` (any numeric to any), `bitcast` |
| vectors | `broadcast reduce extract insert shuffle tail_mask full_mask mask_bits` |
| memory | `offset address_number load store gather scatter prefetch fence alloca` |
| control | `for_ if_ branch cond_branch at_end call call_pointer address_of function_address location` |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from anyshape.codegen.arithmetic import ArithmeticBuilder
from anyshape.codegen.mlir import (
    Block,
    Branch,
    Loop,
    Operand,
    Reduction,
    Type,
    Value,
    arith,
    byte_size,
    cf,
    element_of,
    func,
    ir,
    is_float_type,
    lanes_of,
    llvm,
    scf,
    vector,
)
from anyshape.support.errors import CodegenError

_DYNAMIC_GEP_INDEX = -(2**31)
_SEQUENTIALLY_CONSISTENT = 7
"""An `AtomicOrdering` of MLIR's LLVM dialect."""


class Builder(ArithmeticBuilder):
    """Appends ops at the current insertion point; stateless but for cached types. See the module's table of methods.

    Must be made and used inside an entered `ModuleBuilder`. Misuse (mixed element types, unknown predicates) raises
    `CodegenError` at once, rather than later in the verifier, so that the Python stack shows the culprit.
    """

    # ---- vectors -------------------------------------------------------------------------------------------------

    def reduce(self, kind: Reduction, x: Value, initial: Value | None = None) -> Value:
        """All lanes combined into a scalar, with `initial` if given; the order of float additions is free
        (`reassoc`)."""
        flags = arith.FastMathFlags.reassoc if is_float_type(x.type) else None
        return vector.reduction(element_of(x.type), vector.CombiningKind[kind.upper()], x, acc=initial, fastmath=flags)

    def extract(self, x: Value, lane: int) -> Value:
        """One lane as a scalar."""
        return vector.extract(x, [], [lane])

    def insert(self, scalar: Value, x: Value, lane: int) -> Value:
        """x with one lane replaced."""
        return vector.insert(scalar, x, [], [lane])

    def shuffle(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """Lanes picked from x followed by y (`lanes[i]` below width(x) + width(y))."""
        return vector.shuffle(x, y, list(lanes))

    def mask_bits(self, mask: Value) -> Value:
        """The lanes of a mask as an integer of as many bits, lane 0 the lowest (of little-endian machines)."""
        return llvm.bitcast(self.type(f"i{_lanes(mask)}"), mask)

    def full_mask(self, width: int) -> Value:
        """All lanes on."""
        return self.splat(1, self.i1, width)

    def tail_mask(self, count: Value, width: int) -> Value:
        """Lane l is on if l < count (i64, any value: negative gives none, large gives all)."""
        clamped = self.convert(self.minimum(count, width), self.i32)
        return self.cmp("slt", self.lane_numbers(width, self.i32), self.broadcast(clamped, width))

    # ---- memory --------------------------------------------------------------------------------------------------

    def offset(self, pointer: Value, element: Type, index: Operand) -> Value:
        """The address of `pointer[index]`, elements of that type; an i64 vector of indices gives a vector of
        addresses."""
        if isinstance(index, int):
            if index == 0:
                return pointer
            index = self.const(self.i64, index)
        lanes = lanes_of(index.type)
        result = self.ptr if lanes is None else self.vector_type(self.ptr, lanes)
        return llvm.getelementptr(result, pointer, [index], [_DYNAMIC_GEP_INDEX], element, None)

    def load(
        self,
        pointer: Value,
        element: Type,
        index: Operand = 0,
        *,
        width: int | None = None,
        mask: Value | None = None,
        passthru: Operand = 0,
        alignment: int | None = None,
        invariant: bool = False,
    ) -> Value:
        """`pointer[index]`, or `width` elements from there on as a vector; lanes that are off read nothing and give
        `passthru`.

        Alignment is that of the element unless told. `invariant` promises that the memory never changes while the
        program runs.
        """
        address = self.offset(pointer, element, index)
        alignment = byte_size(element) if alignment is None else alignment
        type_ = self.vector_type(element, width)
        if mask is None:
            return llvm.load(type_, address, alignment=alignment, invariant=invariant or None)
        other = self.const(type_, passthru) if isinstance(passthru, int | float) else passthru
        return llvm.intr_masked_load(type_, address, mask, alignment, pass_thru=self.broadcast(other, width))

    def store(
        self,
        value: Value,
        pointer: Value,
        index: Operand = 0,
        *,
        mask: Value | None = None,
        alignment: int | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Store a scalar or vector at `pointer[index]` (elements of the value's type); lanes that are off stay
        untouched. After `nontemporal` stores, which want their whole alignment, a function ends with a `fence`."""
        element = element_of(value.type)
        address = self.offset(pointer, element, index)
        alignment = byte_size(element) if alignment is None else alignment
        if mask is None:
            llvm.store(value, address, alignment=alignment, nontemporal=nontemporal or None)
        else:
            llvm.intr_masked_store(value, address, mask, alignment)

    def gather(
        self, pointer: Value, element: Type, indices: Value, *, mask: Value | None = None, passthru: Operand = 0
    ) -> Value:
        """`pointer[indices[l]]` in lane l (i64 indices); lanes that are off read nothing and give `passthru`."""
        lanes = _lanes(indices)
        type_ = self.vector_type(element, lanes)
        other = self.const(type_, passthru) if isinstance(passthru, int | float) else self.broadcast(passthru, lanes)
        mask = self.full_mask(lanes) if mask is None else mask
        return llvm.intr_masked_gather(type_, self.offset(pointer, element, indices), mask, [other], byte_size(element))

    def scatter(self, value: Value, pointer: Value, indices: Value, *, mask: Value | None = None) -> None:
        """`pointer[indices[l]] = value[l]` for the lanes that are on, in lane order."""
        element = element_of(value.type)
        mask = self.full_mask(_lanes(indices)) if mask is None else mask
        llvm.intr_masked_scatter(value, self.offset(pointer, element, indices), mask, byte_size(element))

    def prefetch(
        self, pointer: Value, element: Type, index: Operand, *, write: bool = False, locality: int = 3
    ) -> None:
        """Ask for the cache line of `pointer[index]`; harmless past the end. Locality 3 is every level, 0 none."""
        llvm.intr_prefetch(self.offset(pointer, element, index), int(write), locality, 1)

    def address_number(self, pointer: Value) -> Value:
        """An address as an i64."""
        return llvm.ptrtoint(self.i64, pointer)

    def fence(self) -> None:
        """All stores before it, non-temporal ones too, are seen before all that follow."""
        llvm.fence(ir.Attribute.parse(f"{_SEQUENTIALLY_CONSISTENT} : i64"))

    def alloca(self, element: Type, count: int, *, alignment: int = 64) -> Value:
        """Stack memory for `count` elements; build it in a function's entry block, outside loops."""
        return llvm.alloca(self.ptr, self.const(self.i64, count), element, alignment=alignment)

    # ---- control -------------------------------------------------------------------------------------------------

    def _i64(self, number: Operand) -> Value:
        return self.const(self.i64, number) if isinstance(number, int) else number

    @contextmanager
    def for_(self, lower: Operand, upper: Operand, step: Operand = 1, initial: Sequence[Value] = ()) -> Generator[Loop]:
        """`for index = lower; index < upper; index += step` over i64 (signed, step > 0), body built inside the `with`.

        With `initial` values the loop carries `loop.args`, and the body must end in `loop.yield_`.
        """
        loop = Loop(scf.ForOp(self._i64(lower), self._i64(upper), self._i64(step), list(initial)))
        with ir.InsertionPoint(loop.operation.body):
            yield loop
            if not loop.yielded:
                if initial:
                    raise CodegenError("a loop with carried values ended without yield_")
                scf.YieldOp([])

    def if_(self, condition: Value, results: Sequence[Type] = (), *, has_else: bool = False) -> Branch:
        """A two-sided choice; see `Branch`. With results both sides must yield them."""
        return Branch(scf.IfOp(condition, list(results), has_else=has_else or bool(results)))

    def branch(self, block: Block, *arguments: Value) -> None:
        """End the current block with a jump (function level only, not inside `for_` or `if_`)."""
        cf.BranchOp(list(arguments), block)

    def cond_branch(self, condition: Value, true_block: Block, false_block: Block) -> None:
        """End the current block with a conditional jump to blocks without arguments (function level only)."""
        cf.CondBranchOp(condition, [], [], true_block, false_block)

    @contextmanager
    def at_end(self, block: Block) -> Generator[None]:
        """Append to that block inside the `with`."""
        with ir.InsertionPoint(block):
            yield

    def call(self, name: str, arguments: Sequence[Value], results: Sequence[Type] = ()) -> list[Value]:
        """Call a function of the module (defined or declared, before or after) by name."""
        return list(func.CallOp(list(results), name, list(arguments)).results)

    def call_pointer(self, callee: Value, arguments: Sequence[Value], result: Type | None = None) -> Value | None:
        """Call a C function through a pointer."""
        operation = llvm.CallOp(result, [callee, *arguments], [], [])
        return None if result is None else operation.result

    def address_of(self, symbol: str) -> Value:
        """The address of a constant (`ModuleBuilder.constant_bytes`) of the module."""
        return llvm.mlir_addressof(self.ptr, symbol)

    def function_address(self, symbol: str, arguments: Sequence[Type], results: Sequence[Type] = ()) -> Value:
        """The address of a function of the module with that signature, as a pointer to hand to C."""
        type_ = ir.FunctionType.get(list(arguments), list(results))
        reference = func.ConstantOp(type_, symbol).result
        return ir.Operation.create(
            "builtin.unrealized_conversion_cast", results=[self.ptr], operands=[reference]
        ).result

    @contextmanager
    def location(self, name: str) -> Generator[None]:
        """Give the ops built inside the `with` a named source location, for diagnostics."""
        with ir.Location.name(name):
            yield


def _lanes(value: Value) -> int:
    width = lanes_of(value.type)
    if width is None:
        raise CodegenError(f"expected a vector of indices, got {value.type}")
    return width
