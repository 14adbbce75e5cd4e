"""From a graph to loaded machine code, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from anyshape.codegen.attend import attend_schedule, emit_attend
from anyshape.codegen.contract import contract_schedule, emit_contract, shared_objects
from anyshape.codegen.host import DESCRIPTOR, emit_program
from anyshape.codegen.llvm import LoadedCode, Target, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import Claim, EmittedKernel, emit_kernel
from anyshape.dialects.dhlo import ConstantStore, Weight
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.dhlo.graph import facts_of
from anyshape.dialects.host import GuardAxisOp, GuardOp, LaunchOp, ProgramOp
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp
from anyshape.driver.constants import ConstantTable, build_table
from anyshape.driver.pipeline import run_graph_passes
from anyshape.fusion import copy_shared_results, decide_fusion, outline_groups
from anyshape.host import BuiltProgram, LaunchShape, build_program
from anyshape.kernels import Launch, Plan, PlanTable
from anyshape.runtime import Program, runtime
from anyshape.support.machine import Machine, host_machine
from anyshape.support.options import Options
from anyshape.support.trace import Trace

CLAIMS: Mapping[type[Operation], Claim] = {ContractOp: emit_contract, AttendOp: emit_attend}


@dataclass(frozen=True)
class BuiltObjects:
    """A compiled program before it is loaded: object files, constants, and the plans that it was made from."""

    objects: tuple[bytes, ...]
    constants: ConstantTable
    program: ProgramOp
    kernels: Mapping[str, KernelOp]

    @property
    def launches(self) -> list[LaunchOp]:
        return [op for op in self.program.body.block.ops if isinstance(op, LaunchOp)]

    @property
    def guards(self) -> list[str]:
        """What the program demands of the sizes of a call."""
        found: list[str] = []
        for op in self.program.body.block.ops:
            if isinstance(op, GuardOp):
                found.append(str(op.relation.data))
            elif isinstance(op, GuardAxisOp):
                found.append(op.message.data.split(":")[0] + f" is {op.size.data[0]}")
        return found


def build_objects(
    module: ModuleOp, names: Sequence[str], store: ConstantStore, options: Options, trace: Trace
) -> BuiltObjects:
    """Compile the `@main` of a module of `dhlo` ops to object files; the module is consumed."""
    machine, target = host_machine(), host_target()
    run_graph_passes(module, store, trace, options)
    func = main_of(module)
    relations = facts_of(func).relations()
    with trace.stage("fuse"):
        decision = decide_fusion(func)
        trace.log("fusion", lambda: "\n".join(f"{e.producer.name} -> {e.consumer.name}: {e.reason}" for e in decision.edges))
        outline_groups(func, decision)
        copy_shared_results(func)
    trace.dump("fused", "mlir", lambda: str(module))
    with trace.stage("plan"):
        table, launches = plan_kernels(func)
        kernels = {plan.kernel.sym_name.data: plan.kernel for plan in table.plans.values()}
    trace.dump("kernels", "mlir", lambda: "\n".join(str(kernel) for kernel in kernels.values()))
    with trace.stage("emit kernels"):
        kernel_object, shapes = emit_kernels(list(table.plans.values()), machine, target, trace)
    with trace.stage("plan host"):
        built = build_program(func, names, relations, launches, shapes, table.sites)
    trace.dump("host", "mlir", lambda: str(built.program))
    with trace.stage("pack constants"):
        constants = build_table(built.constants, store)
    with trace.stage("emit host"):
        host_object = emit_host(built, constants, target)
    objects = [kernel_object, host_object]
    elements = _contract_elements(kernels.values())
    if elements:
        with trace.stage("micro-kernels"):
            objects.append(shared_objects(target, machine, elements))
    return BuiltObjects(tuple(objects), constants, built.program, kernels)


def main_of(module: ModuleOp) -> FuncOp:
    """The function `@main` of a module."""
    return next(op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")


def plan_kernels(func: FuncOp) -> tuple[PlanTable, dict[FusionOp, Launch]]:
    """A plan for every fusion of `func`, equal ones shared."""
    table = PlanTable()
    launches: dict[FusionOp, Launch] = {}
    for op in func.body.block.ops:
        if isinstance(op, FusionOp):
            constant = frozenset(i for i, value in enumerate(op.inputs) if isinstance(value.owner, Weight))
            launches[op] = table.launch_of(op, constant)
    return table, launches


def emit_kernels(
    plans: Sequence[Plan], machine: Machine, target: Target, trace: Trace
) -> tuple[bytes, dict[str, LaunchShape]]:
    """One object with every kernel, and how each is launched."""
    shapes: dict[str, LaunchShape] = {}
    builder = ModuleBuilder("kernels", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with builder:
        for number, plan in enumerate(plans):
            trace.step(number, len(plans))
            emitted = emit_kernel(builder, plan.kernel, machine, CLAIMS)
            shapes[emitted.name] = _launch_shape(plan, emitted, machine)
    trace.log("mlir", lambda: str(builder.module))
    code = optimise(lower_to_llvm(builder.module), target)
    return emit_object(code, target), shapes


def _launch_shape(plan: Plan, emitted: EmittedKernel, machine: Machine) -> LaunchShape:
    outermost = plan.kernel.body.block.last_op
    if isinstance(outermost, ContractOp):
        schedule = contract_schedule(outermost, machine)
        return LaunchShape(schedule.extent, schedule.grain, schedule.scratch_bytes)
    if isinstance(outermost, AttendOp):
        schedule = attend_schedule(outermost, machine)
        return LaunchShape(schedule.extent, schedule.grain, schedule.scratch_bytes)
    assert plan.extent is not None and plan.grain is not None
    return LaunchShape(plan.extent, plan.grain, emitted.scratch_bytes)


def emit_host(built: BuiltProgram, constants: ConstantTable, target: Target) -> bytes:
    """The object of the host program and its descriptor."""
    builder = ModuleBuilder("program")
    with builder:
        emit_program(builder, built.program, outputs=built.outputs, constants=constants.layout)
    return emit_object(optimise(lower_to_llvm(builder.module), target), target)


def _contract_elements(kernels: Sequence[KernelOp]) -> tuple[str, ...]:
    found: set[str] = set()
    for kernel in kernels:
        outermost = kernel.body.block.last_op
        if isinstance(outermost, ContractOp):
            found.add(str(outermost.epilogue.block.args[-1].type))
        elif isinstance(outermost, AttendOp):
            found.add("f32")
    return tuple(sorted(found))


def load_program(built: BuiltObjects, threads: int) -> Program:
    """Link the objects in memory against the runtime."""
    code = LoadedCode(built.objects, runtime().symbols)
    return Program(code.address(DESCRIPTOR), built.constants.arrays, threads, owner=code)
