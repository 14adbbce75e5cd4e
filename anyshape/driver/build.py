"""From a graph to loaded machine code, stage by stage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from anyshape.codegen.attend import attend_schedule, elements_name, emit_attend
from anyshape.codegen.host import emit_program
from anyshape.codegen.llvm import (
    LoadedCode,
    Target,
    emit_assembly,
    emit_object,
    emit_optimised_object,
    host_target,
    optimise,
)
from anyshape.codegen.microkernels import Part, attend_parts
from anyshape.codegen.mlir import SCALAR_PASSES, ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import Claim, EmittedKernel, emit_kernel
from anyshape.codegen.products import emit_product, product_parts, product_schedule
from anyshape.codegen.symbols import DESCRIPTOR
from anyshape.codegen.whole import emit_whole, whole_parts, whole_schedule
from anyshape.dialects.arrays import ConstantStore
from anyshape.dialects.dhlo import Weight
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.dhlo.graph import facts_of, only_function
from anyshape.dialects.host import BindOp, GuardAxisOp, GuardOp, ProgramOp
from anyshape.dialects.host.verify import verify_program
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp, WholeOp
from anyshape.driver.ahead import Ahead
from anyshape.driver.constants import ConstantTable
from anyshape.driver.machine import calibrated_machine
from anyshape.driver.microkernels import microkernel_object
from anyshape.driver.packing import limit_copies, packable_weights
from anyshape.driver.pipeline import run_graph_passes
from anyshape.driver.recording import Compilation, record
from anyshape.driver.stored import BuiltObjects, Stages, StoredProgram, Summary
from anyshape.fusion import RowLimits, add_long_rows, copy_shared_results, decide_fusion, outline_groups
from anyshape.host import BuiltProgram, LaunchShape, build_program
from anyshape.kernels import Launch, Plan, PlanTable, why_no_prologue
from anyshape.kernels.loop_cost import loop_grain
from anyshape.runtime import Program, runtime
from anyshape.support.machine import Machine
from anyshape.support.options import Options
from anyshape.support.trace import Trace
from anyshape.symbolic import describe_relation

_KERNELS_AT_A_TIME = (
    8  # in a module of LLVM's: few enough that it starts early, enough that a module's own cost is small
)
CLAIMS: Mapping[type[Operation], Claim] = {ContractOp: emit_product, AttendOp: emit_attend, WholeOp: emit_whole}


def build_objects(
    module: ModuleOp, names: Sequence[str], store: ConstantStore, options: Options, trace: Trace
) -> BuiltObjects:
    """Compile the `@main` of a module of `dhlo` ops to object files, or fetch them from the cache; the module is consumed."""
    machine, target = calibrated_machine(options.cache), host_target()
    if options.cache is None or store.live:  # recipes are ops of this process
        return compile_objects(module, names, store, options, trace, machine, target)
    with trace.stage("cache"):
        place = StoredProgram(machine, target, options, "dhlo", json.dumps(list(names)), str(module))
        found = place.get(store, trace)
    if found is not None:
        return found[0]
    given = frozenset(store)
    built = compile_objects(module, names, store, options, trace, machine, target)
    with trace.stage("cache"):
        place.put(built, given)
    return built


def compile_objects(
    module: ModuleOp,
    names: Sequence[str],
    store: ConstantStore,
    options: Options,
    trace: Trace,
    machine: Machine,
    target: Target,
    ahead: Ahead | None = None,
) -> BuiltObjects:
    """Compile the `@main` of a module of `dhlo` ops to object files for a machine; the module is consumed.

    Args:
        ahead: what makes some of the micro-kernels meanwhile.
    """
    limit_copies(only_function(module), store, options)
    run_graph_passes(module, store, trace, options)
    func = only_function(module)
    with trace.stage("fuse"):
        decision = decide_fusion(func, lambda proposal: why_no_prologue(proposal, machine))
        trace.log("fusion", lambda: "\n".join(str(edge) for edge in decision.edges))
        outline_groups(func, decision)
        copy_shared_results(func)
        add_long_rows(func, RowLimits.of(machine))
    trace.dump("fused", "mlir", lambda: str(module))
    with trace.stage("plan"):
        table, launches = plan_kernels(func, packable_weights(func, store, options), options.activations)
        kernels = {plan.kernel.sym_name.data: plan.kernel for plan in table.plans.values()}
    trace.log("kernels", lambda: "\n".join(str(kernel) for kernel in kernels.values()))
    trace.dump("kernels", "mlir", lambda: "\n".join(str(kernel) for kernel in kernels.values()))
    # LLVM runs without the interpreter's lock: what it compiles meanwhile costs no time of this thread's.
    with ThreadPoolExecutor(1) as compiler:
        parts = _MicroKernels(
            kernels.values(),
            lambda part: compiler.submit(microkernel_object, target, machine, part, options.cache),
            ahead,
        )
        with trace.stage("emit kernels"):
            kernel_objects, shapes = emit_kernels(
                list(table.plans.values()),
                machine,
                target,
                trace,
                lambda code: compiler.submit(emit_optimised_object, code, target),
            )
        with trace.stage("plan host"):
            built = build_program(func, names, facts_of(func).relations(), launches, shapes, table.sites)
            if options.verify:
                verify_program(built.program, kernels)
        trace.log("host", lambda: str(built.program))
        trace.log("guards", lambda: "\n".join(guards_of(built.program)))
        trace.dump("host", "mlir", lambda: str(built.program))
        constants = ConstantTable(tuple(built.constants), store)
        with trace.stage("emit host"):
            host_object = emit_host(built, constants, target)
        with trace.stage("machine code"):
            made = {f"kernels_{number}": made.result() for number, made in enumerate(kernel_objects)}
            objects = {**made, "program": host_object, **parts.objects()}
    summary = Summary(
        Counter(launches[op].plan.kernel.sym_name.data for op in func.body.block.ops if isinstance(op, FusionOp)),
        symbols_of(built.program),
        tuple(guards_of(built.program)),
    )
    record(Compilation(tuple(names), func, decision, launches, built.program, kernels, constants, machine, trace))
    return BuiltObjects(objects, constants, summary, Stages(built.program, kernels))


def symbols_of(program: ProgramOp) -> dict[str, str]:
    """The argument and axis that binds each size symbol."""
    names = {value: name.data for value, name in zip(program.body.block.args, program.names, strict=True)}
    return {
        op.symbol.data: f"{names[op.argument]}, axis {op.axis.value.data}"  # pyright: ignore[reportArgumentType]
        for op in program.body.block.ops
        if isinstance(op, BindOp)
    }


def guards_of(program: ProgramOp) -> list[str]:
    """What a program demands of the sizes of a call."""
    found: list[str] = []
    for op in program.body.block.ops:
        if isinstance(op, GuardOp):
            found.append(describe_relation(op.relation.data))
        elif isinstance(op, GuardAxisOp):
            found.append(f"{op.message.data.split(':')[0]} is {op.size.data[0]}")
    return found


def plan_kernels(
    func: FuncOp, packable: Collection[str], activations: str = "int16"
) -> tuple[PlanTable, dict[FusionOp, Launch]]:
    """A plan for every fusion of `func`, equal ones shared; products take the weights in `packable` packed, and quantised ones round
    their left-hand sides to `activations`."""
    table = PlanTable(activations)
    launches: dict[FusionOp, Launch] = {}
    for op in func.body.block.ops:
        if isinstance(op, FusionOp):
            weights = {i: value.owner for i, value in enumerate(op.inputs) if isinstance(value.owner, Weight)}
            packed = frozenset(i for i, weight in weights.items() if weight.attribute("name") in packable)
            launches[op] = table.launch_of(op, packed)
            launches |= {other: table.launch_of(other, frozenset()) for other in op.fusions[1:]}
    return table, launches


def emit_kernels(
    plans: Sequence[Plan], machine: Machine, target: Target, trace: Trace, compiled: Callable[[str], Future[bytes]]
) -> tuple[list[Future[bytes]], dict[str, LaunchShape]]:
    """The objects with every kernel, and how each is launched.

    Args:
        compiled: starts compiling LLVM IR; it is given a few kernels at a time, so that this goes on while the next are emitted.
    """
    objects: list[Future[bytes]] = []
    shapes: dict[str, LaunchShape] = {}
    for first in range(0, len(plans), _KERNELS_AT_A_TIME):
        builder = ModuleBuilder("kernels", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
        with builder:
            for number, plan in enumerate(plans[first : first + _KERNELS_AT_A_TIME], first):
                trace.step(number, len(plans))
                emitted = emit_kernel(builder, plan.kernel, machine, CLAIMS)
                shapes[emitted.name] = _launch_shape(plan, emitted, machine)
        trace.log("mlir", partial(str, builder.module))
        code = lower_to_llvm(builder.module)
        objects.append(compiled(code))
        trace.log("asm", partial(_assembly_of, code, target))
    return objects, shapes


def _assembly_of(code: str, target: Target) -> str:
    return emit_assembly(optimise(code, target), target)


def _launch_shape(plan: Plan, emitted: EmittedKernel, machine: Machine) -> LaunchShape:
    outermost = plan.kernel.body.block.last_op
    if isinstance(outermost, ContractOp):
        schedule = product_schedule(outermost, machine)
        return LaunchShape(schedule.extent, schedule.grain, schedule.scratch_bytes)
    if isinstance(outermost, AttendOp):
        schedule = attend_schedule(outermost, machine)
        return LaunchShape(schedule.extent, schedule.grain, schedule.scratch_bytes)
    if isinstance(outermost, WholeOp):
        schedule = whole_schedule(outermost, machine)
        return LaunchShape(schedule.extent, schedule.grain, schedule.scratch_bytes)
    assert plan.extent is not None
    return LaunchShape(plan.extent, loop_grain(plan.kernel, machine), emitted.scratch_bytes)


def emit_host(built: BuiltProgram, constants: ConstantTable, target: Target) -> bytes:
    """The object of the host program and its descriptor."""
    builder = ModuleBuilder("program")
    with builder:
        emit_program(builder, built.program, outputs=built.outputs, constants=constants.layout)
    # One long function that runs once a call: compiling it well takes ten times as long, and saves some microseconds.
    return emit_object(lower_to_llvm(builder.module, SCALAR_PASSES), target, level=0)


class _MicroKernels:
    """The micro-kernels that kernels call: compiled at once, but for those that `ahead` makes meanwhile.

    Args:
        compiled: starts compiling one.
    """

    def __init__(
        self, kernels: Iterable[KernelOp], compiled: Callable[[Part], Future[bytes]], ahead: Ahead | None
    ) -> None:
        self._compiled, self._ahead = compiled, ahead
        self._parts = _parts(kernels)
        late = frozenset[str]() if ahead is None else ahead.parts
        self._made = {part: compiled(part) for part in self._parts if str(part) not in late}

    def objects(self) -> dict[str, bytes]:
        """The object files by name, when all are there: what was made ahead is in the cache then."""
        if self._ahead is not None:
            self._ahead.wait()
        made = {part: self._made.get(part) or self._compiled(part) for part in self._parts}
        return {f"microkernels_{part}": future.result() for part, future in made.items()}


def _parts(kernels: Iterable[KernelOp]) -> list[Part]:
    """The micro-kernels that the kernels call."""
    found: set[Part] = set()
    for kernel in kernels:
        outermost = kernel.body.block.last_op
        if isinstance(outermost, ContractOp):
            found.update(product_parts(outermost))
        elif isinstance(outermost, AttendOp):
            found.update(attend_parts(elements_name(outermost)))
        elif isinstance(outermost, WholeOp):
            found.update(whole_parts(outermost))
    return sorted(found)


def load_program(built: BuiltObjects, threads: int) -> Program:
    """Link the objects in memory against the runtime."""
    code = LoadedCode(list(built.objects.values()), runtime().symbols)
    return Program(code.address(DESCRIPTOR), built.constants.arrays(code), threads, owner=code)


def write_objects(built: BuiltObjects, folder: Path) -> list[Path]:
    """Write the object files and `constants.bin` for linking outside; returns the objects' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in built.objects.items():
        (folder / f"{name}.o").write_bytes(data)
    code = LoadedCode(list(built.objects.values()), runtime().symbols)
    built.constants.write(folder / "constants.bin", code)
    return [folder / f"{name}.o" for name in built.objects]
