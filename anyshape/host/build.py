"""Build the host program of an outlined graph: bind and guard sizes, place buffers, launch kernels.

Every value of the graph becomes a buffer: a weight an entry of the constant table, a reshape a view, a fusion's result an arena buffer,
or the caller's where the graph returns it. A result that is no fusion's own (an argument, a weight, a value returned twice) is copied by a
loop kernel, put in by `copy_shared_results` before kernels are planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from anyshape.dialects import host
from anyshape.dialects.arrays import ConstantEntry
from anyshape.dialects.dhlo import Reshape, Weight
from anyshape.dialects.dhlo.checks import Check
from anyshape.dialects.dhlo.compaction import ReadSize
from anyshape.dialects.dhlo.fusion import FusionOp, YieldOp
from anyshape.dialects.dhlo.graph import updates_of
from anyshape.dialects.locations import Origin, location_text, origins_in
from anyshape.dialects.messages import SHOWN, verbatim
from anyshape.dialects.sizes import dtype_of, sizes_of, symbols_of
from anyshape.dialects.tile import BufferType, buffer, buffer_of
from anyshape.fusion import viewed
from anyshape.kernels import Launch
from anyshape.support.errors import CodegenError, ExportError
from anyshape.symbolic import Relation, Size, SizeLike, describe_relation


@dataclass(frozen=True)
class LaunchShape:
    """What a kernel's launch passes on, over the kernel's symbols."""

    extent: Size
    grain: Size
    scratch_bytes: Size


@dataclass
class BuiltProgram:
    """The host program with its constant table; `outputs` are dtype and rank of each result."""

    program: host.ProgramOp
    constants: list[ConstantEntry] = field(default_factory=list[ConstantEntry])
    outputs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def build_program(
    func: FuncOp,
    names: Sequence[str],
    relations: Sequence[Relation],
    launches: Mapping[FusionOp, Launch],
    shapes: Mapping[str, LaunchShape],
    sites: Sequence[str],
) -> BuiltProgram:
    """The host program of `func`, whose ops are weights, reshapes and fusions.

    `names` are the arguments as errors call them, `relations` what must hold among sizes, `launches` the planned
    kernel of each fusion, `shapes` the launch shape of each kernel by name.
    """
    return _Builder(func, names, launches, shapes, sites).build(relations)


class _Builder:
    def __init__(
        self,
        func: FuncOp,
        names: Sequence[str],
        launches: Mapping[FusionOp, Launch],
        shapes: Mapping[str, LaunchShape],
        sites: Sequence[str],
    ) -> None:
        self.graph = func.body.block
        self.updated = dict(updates_of(func))
        self.origins = origins_in(func.location)
        self.names = names
        self.launches = launches
        self.shapes = shapes
        arguments = [
            (name, dtype_of(argument.type).type, sizes_of(argument.type))
            for name, argument in zip(names, self.graph.args, strict=True)
        ]
        self.program = host.ProgramOp("main", arguments, (), sites)
        self.block = self.program.body.block
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.table: dict[ConstantEntry, SSAValue] = {}
        self.bound: dict[str, tuple[str, int]] = {}
        self.launched: set[Operation] = set()
        self.launch_shapes: dict[tuple[str, tuple[str, ...]], tuple[Size, Size, Size]] = {}
        self.waiting: list[Relation] = []
        """Conditions on sizes that are read from data later."""

    def build(self, relations: Sequence[Relation]) -> BuiltProgram:
        self._bind_sizes()
        self._guard(relations)
        self._allocate_results()
        for value, argument in zip(self.graph.args, self.block.args, strict=True):
            if value.uses:
                self.buffers[value] = self._append(self._argument(value, argument)).results[0]
        for op in self.graph.ops:
            match op:
                case FusionOp():
                    self._launch_forms(op)
                case ReadSize():
                    self._read(op)
                case Check():
                    self._check(op)
                case Reshape():
                    if op.result not in self.buffers:
                        self._view(op)
                case _:
                    pass
        self.block.add_op(host.ReturnOp())
        constants = list(self.table)
        self.program.constants = ArrayAttr([StringAttr(entry.name) for entry in constants])
        returned = self.graph.last_op
        assert isinstance(returned, ReturnOp)
        results = [value for number, value in enumerate(returned.operands) if number not in self.updated]
        outputs = [(dtype_of(v.type).runtime_code, len(sizes_of(v.type))) for v in results]
        return BuiltProgram(self.program, constants, outputs)

    def _append(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    # -- sizes ----------------------------------------------------------------------------------------------------

    def _bind_sizes(self) -> None:
        """Bind each symbol at the first axis that is just this symbol; every other axis is guarded."""
        later: list[tuple[SSAValue, str, int, Size]] = []
        for name, value, argument in zip(self.names, self.graph.args, self.block.args, strict=True):
            for axis, size in enumerate(sizes_of(value.type)):
                symbol = size.as_symbol()
                if symbol is not None and symbol not in self.bound:
                    self.bound[symbol] = (name, axis)
                    self._append(host.BindOp(symbol, argument, axis))
                else:
                    later.append((argument, name, axis, size))
        for argument, name, axis, size in later:
            self._check_bound(size, name, axis)
            self._append(host.GuardAxisOp(argument, axis, size, self._axis_message(name, axis, size)))

    def _check_bound(self, size: Size, name: str, axis: int) -> None:
        free = sorted(size.symbols - self.bound.keys())
        if free:
            raise ExportError(
                f"size {free[0]!r} occurs only inside the expression {size}",
                where=f"argument {name}, axis {axis}",
                expected="every size symbol to be the whole size of some input axis",
                remedy="pass an input with that axis, or make this axis static",
            )

    def _axis_message(self, name: str, axis: int, size: Size) -> str:
        if size.is_constant:
            asked = _asked_by(self.origins.get(f"{name}, axis {axis}"))
            return f"argument {name}, axis {axis}: got size %lld, allowed is only %lld{asked}"
        return f"argument {name}, axis {axis}: got size %lld, expected %lld ({self._explain(size)})"

    def _explain(self, size: Size) -> str:
        return f"{size}, where {self._axes(sorted(size.symbols))}"

    def _axes(self, symbols: Sequence[str]) -> str:
        """Where each symbol is bound: `d0 is axis 0 of args[0]`."""
        texts: list[str] = []
        for symbol in symbols:
            name, axis = self.bound[symbol]
            texts.append(f"{symbol} is axis {axis} of {name}" if axis >= 0 else f"{symbol} is read from data")
        return ", ".join(texts)

    def _guard(self, relations: Sequence[Relation]) -> None:
        read = {op.symbol for op in self.graph.ops if isinstance(op, ReadSize)}
        for relation in relations:
            symbols = sorted(relation.symbols)
            free = [symbol for symbol in symbols if symbol not in self.bound]
            if free and read.issuperset(free):
                self.waiting.append(relation)
                continue
            if free:
                raise ExportError(
                    f"a condition of the model is about size {free[0]!r}, which is not the size of an input's axis",
                    got=str(relation),
                    expected="every size in a condition to be the whole size of some input axis",
                    remedy="pass an input with that axis, or make the axes that it comes from static",
                )
            self._guard_relation(relation)

    def _guard_relation(self, relation: Relation) -> None:
        symbols = sorted(relation.symbols)
        shown = symbols[:SHOWN]
        got = ", ".join(f"{self._place(symbol)}: got size %lld" for symbol in shown)
        message = f"{got}; allowed only if {describe_relation(relation)}, where {self._axes(symbols)}"
        message += _asked_by(self.origins.get(str(relation)))
        self._append(host.GuardOp(relation, message, [Size.symbol(symbol) for symbol in shown]))

    def _place(self, symbol: str) -> str:
        name, axis = self.bound[symbol]
        return f"argument {name}, axis {axis}" if axis >= 0 else name

    def _read(self, op: ReadSize) -> None:
        """Bind the symbol of a size that the data say, and do what waited for it."""
        source = self.buffers[op.result] = self._buffer(op.operands[0])
        self._append(host.ReadOp(op.symbol, source))
        self.bound[op.symbol] = (verbatim(location_text(op.location) or "a size that the data say"), -1)
        ready = [relation for relation in self.waiting if relation.symbols <= self.bound.keys()]
        self.waiting = [relation for relation in self.waiting if relation not in ready]
        for relation in ready:
            self._guard_relation(relation)
        self._allocate_results()

    def _check(self, op: Check) -> None:
        number, *shown = map(self._buffer, op.operands)
        self.buffers[op.result] = number
        self._append(host.CheckOp(number, op.attribute("error"), op.text, shown))

    def _argument(self, value: BlockArgument, argument: BlockArgument) -> Operation:
        """What makes a buffer of an argument."""
        if value.index not in self.updated.values():
            return host.DenseOp(argument)
        name = verbatim(self.names[value.index])
        return host.InPlaceOp(argument, f"argument {name} is updated in place and has to be in row-major order")

    # -- buffers --------------------------------------------------------------------------------------------------

    def _results(self) -> dict[SSAValue, tuple[int, SSAValue]]:
        """For each value that a fusion computes and the graph returns: result number and the value returned."""
        returned = self.graph.last_op
        assert isinstance(returned, ReturnOp)
        results: dict[SSAValue, tuple[int, SSAValue]] = {}
        kept = [value for number, value in enumerate(returned.operands) if number not in self.updated]
        for index, value in enumerate(kept):
            root = viewed(value)
            assert isinstance(root.owner, FusionOp) and root not in results, "copy_shared_results ran before"
            results[root] = (index, value)
        return results

    def _buffer(self, value: SSAValue) -> SSAValue:
        if isinstance(value.owner, Weight):
            return self._constant(ConstantEntry(value.owner.attribute("name")), _type_of(value))
        return self.buffers[value]

    def _constant(self, entry: ConstantEntry, type: BufferType) -> SSAValue:
        if entry not in self.table:
            self.table[entry] = self._append(host.ConstantOp(len(self.table), type)).results[0]
        return self.table[entry]

    def _allocate_results(self) -> None:
        """Let the caller allocate all results before the first launch: its code is in the caches then, and after a call's
        weights have gone through them it would take tens of microseconds."""
        for value, (index, returned) in self._results().items():
            if value in self.buffers or not symbols_of([returned.type, value.type]) <= self.bound.keys():
                continue  # it is allocated already, or its size is not known yet
            output = self._append(host.OutputOp(index, _type_of(returned))).results[0]
            self.buffers[value] = self.buffers[returned] = output
            if returned is not value:
                self.buffers[value] = self._append(host.ViewOp(output, _type_of(value))).results[0]

    def _updated(self, fusion: FusionOp, value: SSAValue) -> SSAValue:
        """The buffer of a value that a launch updates. Raises CodegenError where a later launch reads the value as it is now."""
        late = [
            use.operation for use in value.uses if use.operation is not fusion and use.operation not in self.launched
        ]
        if late:
            raise CodegenError(
                "kernels were ordered so that a tensor is read after it was updated in place", got=late[0].name,
                remedy="read what the update returns",
            )  # fmt: skip
        return self.buffers[value]

    def _launch_forms(self, fusion: FusionOp) -> None:
        """Launch a fusion, or the fusions of its second form where that is the one to use: results lie at one place."""
        if fusion.other is None:
            self._launch(fusion)
            return
        block, when = fusion.other.block, fusion.condition
        self._launch(fusion, 1 - when)
        self.buffers.update(zip(block.args, map(self._buffer, fusion.inputs), strict=True))
        last = block.last_op
        assert isinstance(last, YieldOp)
        for value, result in zip(last.values, fusion.results, strict=True):
            root = viewed(value)
            place = self.buffers[result]
            self.buffers[root] = place if root is value else self._append(host.ViewOp(place, _type_of(root))).results[0]
        for op in block.ops:
            if isinstance(op, FusionOp):
                self._launch(op, when)
            elif isinstance(op, Reshape) and viewed(op.result) not in map(viewed, last.values):
                self._view(op)

    def _view(self, op: Reshape) -> None:
        source = self._buffer(op.operands[0])
        # Not `_type_of`: an argument's buffer is signless already.
        type = buffer(buffer_of(source).element_type, sizes_of(op.result.type))
        self.buffers[op.result] = self._append(host.ViewOp(source, type)).results[0]

    def _launch(self, fusion: FusionOp, when: SizeLike = 1) -> None:
        launch = self.launches[fusion]
        self.launched.add(fusion)
        kernel = launch.plan.kernel
        names = {f"s{number}": Size.symbol(symbol) for number, symbol in enumerate(launch.symbols)}
        arguments: list[SSAValue] = []
        for position, source in enumerate(launch.plan.inputs):
            value = fusion.inputs[source]
            packed = launch.plan.packed.get(position)
            offset = launch.plan.offsets.get(position)
            if offset is not None:
                type = _renamed(buffer_of(kernel.body.block.args[position]), names)
                view = host.ViewOp(self._buffer(value), type, offset.substitute(names))
                arguments.append(self._append(view).results[0])
            elif packed is None:
                arguments.append(self._buffer(value))
            else:
                assert isinstance(value.owner, Weight)
                type = buffer_of(kernel.body.block.args[position])
                arguments.append(self._constant(ConstantEntry(value.owner.attribute("name"), packed), type))
        for value, update in zip(fusion.results, launch.plan.updates, strict=False):
            self.buffers[value] = self._updated(fusion, fusion.inputs[update.input])
            type = _renamed(buffer_of(kernel.body.block.args[len(arguments)]), names)
            arguments.append(
                self._append(host.ViewOp(self.buffers[value], type, update.offset.substitute(names))).results[0]
            )
        for value in fusion.results if not launch.plan.updates else ():
            if value not in self.buffers:
                self.buffers[value] = self._append(host.AllocateOp(_type_of(value))).results[0]
            arguments.append(self.buffers[value])
        extent, grain, scratch = self._launch_shape(kernel.sym_name.data, launch.symbols)
        self._append(
            host.LaunchOp(
                kernel.sym_name.data,
                arguments,
                [Size.symbol(symbol) for symbol in launch.symbols],
                extent=extent,
                grain=grain,
                scratch=scratch,
                outputs=len(fusion.results),
                when=when,
            )
        )

    def _launch_shape(self, kernel: str, symbols: tuple[str, ...]) -> tuple[Size, Size, Size]:
        """Extent, grain and bytes of scratch of a launch over these symbols of the program; layers that are equal share them."""
        found = self.launch_shapes.get((kernel, symbols))
        if found is None:
            names = {f"s{number}": Size.symbol(symbol) for number, symbol in enumerate(symbols)}
            shape = self.shapes[kernel]
            extent, grain, scratch = (
                size.substitute(names) for size in (shape.extent, shape.grain, shape.scratch_bytes)
            )
            found = self.launch_shapes[kernel, symbols] = (extent, grain, scratch)
        return found


def _type_of(value: SSAValue) -> BufferType:
    return buffer(dtype_of(value.type).type, sizes_of(value.type))


def _renamed(type: BufferType, names: Mapping[str, Size]) -> BufferType:
    """A kernel's buffer type in the program's symbols."""
    sizes, strides = ([size.substitute(names) for size in part.data] for part in (type.sizes, type.strides))
    return buffer(type.element_type, sizes, strides)


def _asked_by(origin: Origin | None) -> str:
    """Who asked for a condition, as the end of the message of its guard."""
    return "" if origin is None else verbatim(f"; asked for by {origin}")
