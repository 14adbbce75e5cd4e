"""The typed face of MLIR: contexts, modules, functions, and lowering to LLVM IR text.

This is the only file that imports the MLIR Python bindings; `codegen.builder` holds the `Builder` for what is inside
functions. Memory is reached through raw pointers (`!llvm.ptr`, index and element type, no memrefs), control flow is
`scf` (or `cf` blocks at function level), and all index arithmetic is `i64`.

    module = ModuleBuilder("kernels")
    with module:
        b = Builder()
        with module.function("scale", [b.ptr, b.ptr, b.i64], attributes={0: ["noalias"]}) as f:
            source, target, n = f.args
            with b.for_(0, n, 16) as loop:
                mask = b.tail_mask(b.sub(n, loop.index), 16)
                x = b.load(source, b.f32, loop.index, width=16, mask=mask)
                b.store(b.mul(x, 2.0), target, loop.index, mask=mask)
    text = lower_to_llvm(module.module)

A module must be entered (`with module:`) while ops are built: MLIR keeps the current context, location and insertion
point in thread-local stacks, so one thread builds one module at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self, cast

import mlir.dialects.arith as _arith
import mlir.dialects.cf as _cf
import mlir.dialects.func as _func
import mlir.dialects.llvm as _llvm
import mlir.dialects.math as _math
import mlir.dialects.scf as _scf
import mlir.dialects.vector as _vector
from mlir import ir as _ir
from mlir.passmanager import PassManager

from anyshape.support.errors import CodegenError

# The generated dialect modules carry no type annotations.
ir: Any = _ir
arith: Any = _arith
cf: Any = _cf
func: Any = _func
llvm: Any = _llvm
math: Any = _math
scf: Any = _scf
vector: Any = _vector

Attribute = _ir.Attribute
Block = _ir.Block
Context = _ir.Context
Location = _ir.Location
Module = _ir.Module
Type = _ir.Type
Value = Any
"""An SSA value (`ir.Value`); the bindings return several subclasses, so it is left untyped."""
Operand = Any
"""A `Value`, or a Python `int` or `float` that becomes a constant of the other operand's type."""
AttributeSpec = str | tuple[str, int]
"""An LLVM argument attribute: a flag (`"noalias"`) or a name with a number (`("dereferenceable", 64)`)."""

LOWERING_PASSES = (
    "canonicalize",
    "cse",
    "loop-invariant-code-motion",
    "convert-scf-to-cf",
    "convert-vector-to-llvm",
    "convert-math-to-llvm",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-index-to-llvm",
    "reconcile-unrealized-casts",
    "canonicalize",
    "cse",
)

SCALAR_PASSES = (
    "canonicalize",
    "cse",
    "convert-scf-to-cf",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-index-to-llvm",
    "reconcile-unrealized-casts",
)
"""Enough for code without vectors that runs once."""

FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
Reduction = Literal["add", "mul", "minimumf", "maximumf", "minnumf", "maxnumf", "minsi", "maxsi", "minui", "maxui",
                    "and", "or", "xor"]  # fmt: skip

_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def verify(module: Module) -> None:
    """Raise `CodegenError` with MLIR's own diagnostic if the module is not valid IR."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise CodegenError(f"the generated MLIR module is invalid: {error}") from error


def run_passes(module: Module, passes: Sequence[str]) -> None:
    """Run a pass pipeline over the module in place; raises `CodegenError` with the diagnostics when a pass fails."""
    with module.context:
        try:
            manager: Any = PassManager.parse(f"builtin.module({','.join(passes)})")
            manager.enable_verifier(False)  # between passes; callers verify before and after
            manager.run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            raise CodegenError(f"MLIR lowering failed: {error}") from error


def lower_to_llvm(module: Module, passes: Sequence[str] = LOWERING_PASSES) -> str:
    """Verify the module, lower it **in place** to the LLVM dialect, and return it as LLVM IR text."""
    verify(module)
    run_passes(module, passes)
    verify(module)
    with module.context:
        text = llvm.translate_module_to_llvmir(module.operation)
    if not text:
        raise CodegenError("MLIR could not translate the lowered module to LLVM IR")
    return cast(str, text)


def create_context() -> Context:
    """A context with every upstream dialect; single-threaded, since modules here are small and callers own the
    cores."""
    context = ir.Context()
    context.enable_multithreading(False)
    return context


def lanes_of(type_: Type) -> int | None:
    """Number of lanes of a vector type, None for a scalar type."""
    return type_.shape[0] if isinstance(type_, _ir.VectorType) else None


def element_of(type_: Type) -> Type:
    """The element type of a vector type; a scalar type itself."""
    return type_.element_type if isinstance(type_, _ir.VectorType) else type_


def is_float_type(type_: Type) -> bool:
    """True for f16, bf16, f32, f64 and vectors of them."""
    return isinstance(element_of(type_), _ir.FloatType)


def bit_width(element: Type) -> int:
    """Bits of a scalar type; pointers and `index` have 64."""
    if is_float_type(element):
        return _FLOAT_BITS[str(element)]
    return element.width if isinstance(element, _ir.IntegerType) else 64


def byte_size(element: Type) -> int:
    """Bytes of a scalar in memory (one for `i1`)."""
    return max(1, bit_width(element) // 8)


def signed_value(element: Type, number: int) -> int:
    """The number as the signed value with the same bits, which `IntegerAttr` expects."""
    bits = bit_width(element)
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise CodegenError(f"{number} does not fit {element}")
    return number - (1 << bits) if bits > 1 and number >= 1 << (bits - 1) else number


class FunctionBuilder:
    """A function whose body is being built: its `args`, and `return_`."""

    def __init__(self, operation: Any, entry: Block) -> None:
        self.operation = operation
        self.entry = entry
        self.args: list[Value] = list(entry.arguments)

    def return_(self, *values: Value) -> None:
        """End the current block with a return."""
        func.ReturnOp(list(values))

    def block(self, *argument_types: Type) -> Block:
        """Append an empty block to the function, for `Builder.branch`; fill it inside `with b.at_end(block)`."""
        return self.operation.body.blocks.append(*argument_types)


class ModuleBuilder:
    """An MLIR module under construction: functions, declarations and constant data.

    Every function gets `nounwind` and the `attributes` given here (`{"prefer-vector-width": "512"}`). Enter it (`with`)
    before building anything.
    """

    def __init__(
        self, name: str, *, context: Context | None = None, function_attributes: Mapping[str, str] | None = None
    ):
        self.context = context if context is not None else create_context()
        with self.context, ir.Location.unknown():
            self.module = ir.Module.create()
            self.module.operation.attributes["sym_name"] = ir.StringAttr.get(name)
        self._function_attributes = dict(function_attributes or {})
        self._declared: dict[str, tuple[str, tuple[Type, ...]]] = {}
        self._defined: set[str] = set()
        self._data: dict[bytes, str] = {}
        self._entered: list[Any] = []

    def __enter__(self) -> Self:
        location = ir.Location.unknown(self.context)
        point = ir.InsertionPoint(self.module.body)
        for item in (self.context, location, point):
            item.__enter__()
            self._entered.append(item)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._entered:
            self._entered.pop().__exit__(kind, error, trace)

    def __str__(self) -> str:
        return str(self.module)

    @contextmanager
    def function(
        self,
        name: str,
        arguments: Sequence[Type],
        results: Sequence[Type] = (),
        *,
        attributes: Mapping[int, Sequence[AttributeSpec]] | None = None,
        internal: bool = False,
        shared: bool = False,
        inline: Literal["always", "never"] | None = None,
    ) -> Generator[FunctionBuilder]:
        """Define a function and build its body inside the `with`.

        `attributes` gives LLVM attributes by argument number (`{0: ["noalias", "nonnull"], 1: [("align", 64)]}`). An
        `internal` function is not visible outside the module; a `shared` one may be defined by several linked modules, all
        alike. A function without results returns at its end by itself.
        """
        operation = self._function_op(name, arguments, results, attributes or {})
        self._defined.add(name)
        passthrough: list[Attribute] = [ir.StringAttr.get("nounwind")]
        if inline is not None:
            passthrough.append(ir.StringAttr.get("alwaysinline" if inline == "always" else "noinline"))
        passthrough += [_string_array([key, value]) for key, value in self._function_attributes.items()]
        operation.attributes["passthrough"] = ir.ArrayAttr.get(passthrough)
        if internal or shared:
            linkage = "internal" if internal else "weak_odr"
            operation.attributes["llvm.linkage"] = ir.Attribute.parse(f"#llvm.linkage<{linkage}>")
        entry = operation.add_entry_block()
        with ir.InsertionPoint(entry):
            builder = FunctionBuilder(operation, entry)
            yield builder
        last = operation.body.blocks[len(operation.body.blocks) - 1]
        if not results and not _is_terminated(last):
            with ir.InsertionPoint(last):
                func.ReturnOp([])

    def defines(self, name: str) -> bool:
        """Whether a function of that name has been defined."""
        return name in self._defined

    def declare(self, name: str, arguments: Sequence[Type], results: Sequence[Type] = ()) -> None:
        """Declare an external function; the same declaration twice is one. At most one result."""
        signature = str(ir.FunctionType.get(list(arguments), list(results), context=self.context))
        known = self._declared.get(name)
        if known is not None:
            if known[0] != signature:
                raise CodegenError(f"external function {name} is declared as {known[0]} and as {signature}")
            return
        self._declared[name] = (signature, tuple(results))
        operation = self._function_op(name, arguments, results, {})
        operation.attributes["sym_visibility"] = ir.StringAttr.get("private")

    def _function_op(
        self,
        name: str,
        arguments: Sequence[Type],
        results: Sequence[Type],
        attributes: Mapping[int, Sequence[AttributeSpec]],
    ) -> Any:
        with ir.InsertionPoint(self.module.body):
            operation = func.FuncOp(name, ir.FunctionType.get(list(arguments), list(results)))
        if attributes:
            operation.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [_argument_attributes(attributes.get(number, ())) for number in range(len(arguments))]
            )
        return operation

    def constant_bytes(self, data: bytes, *, alignment: int = 8) -> str:
        """Add read-only bytes (once per content) and return the symbol for `Builder.address_of`."""
        known = self._data.get(data)
        if known is not None:
            return known
        name = f"data.{len(self._data)}"
        with ir.InsertionPoint.at_block_begin(self.module.body):
            llvm.mlir_global(
                ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{len(data)} x i8>")),
                name,
                ir.Attribute.parse("#llvm.linkage<private>"),
                constant=True,
                value=ir.StringAttr.get(data),
                alignment=alignment,
            )
        self._data[data] = name
        return name

    def constant_string(self, text: str) -> str:
        """Add a NUL-terminated UTF-8 string and return its symbol."""
        return self.constant_bytes(text.encode() + b"\0", alignment=1)


def _argument_attributes(specs: Sequence[AttributeSpec]) -> Attribute:
    entries: dict[str, Attribute] = {}
    for spec in specs:
        if isinstance(spec, str):
            entries[f"llvm.{spec}"] = ir.UnitAttr.get()
        else:
            entries[f"llvm.{spec[0]}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), spec[1])
    return ir.DictAttr.get(entries)


def _string_array(items: Sequence[str]) -> Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(item) for item in items])


def _is_terminated(block: Block) -> bool:
    operations = list(block.operations)
    return bool(operations) and operations[-1].operation.name in {"func.return", "cf.br", "cf.cond_br", "cf.switch"}


class Loop:
    """An `scf.for` under construction: `index`, loop-carried `args`, `yield_` and, afterwards, `results`."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.index: Value = operation.induction_variable
        self.args: list[Value] = list(operation.inner_iter_args)
        self.yielded = False

    def yield_(self, *values: Value) -> None:
        """Give the values of `args` for the next iteration; the last thing in the body."""
        self.yielded = True
        scf.YieldOp(list(values))

    @property
    def results(self) -> list[Value]:
        """The values after the last iteration (the initial ones when there was none)."""
        return list(self.operation.results)


class Branch:
    """An `scf.if` under construction; build the sides inside `with branch.then():` and `with branch.otherwise():`."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self._yielded = False

    @contextmanager
    def _side(self, block: Block) -> Generator[None]:
        self._yielded = False
        with ir.InsertionPoint(block):
            yield
            if not self._yielded:
                if len(self.operation.results):
                    raise CodegenError("a side of an if with results ended without yield_")
                scf.YieldOp([])

    @contextmanager
    def then(self) -> Generator[None]:
        """Build what runs when the condition holds."""
        with self._side(self.operation.then_block):
            yield

    @contextmanager
    def otherwise(self) -> Generator[None]:
        """Build what runs when the condition does not hold (only with `has_else` or results)."""
        with self._side(self.operation.else_block):
            yield

    def yield_(self, *values: Value) -> None:
        """Give the results of this side; the last thing in it."""
        scf.YieldOp(list(values))
        self._yielded = True

    @property
    def results(self) -> list[Value]:
        """The results of the side that ran."""
        return list(self.operation.results)
