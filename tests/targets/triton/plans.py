"""The three plans, made by the compiler from the graphs beside this file; `python -m tests.targets.triton.plans` writes the goldens."""

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import ConstantStore
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.dhlo.graph import only_function
from anyshape.dialects.tile import KernelOp
from anyshape.dialects.tile.verify import verify_kernel
from anyshape.fusion import copy_shared_results, decide_fusion, outline_groups
from anyshape.kernels import Plan, PlanTable
from anyshape.passes.context import GraphContext
from anyshape.passes.expand import ExpandPass
from anyshape.targets.triton import TritonKernel, emit_triton

FOLDER = Path(__file__).parent
GRAPHS = ("softmax", "column_sum", "product")
EMITTED = {"softmax": ("softmax", False), "softmax_whole_rows": ("softmax", True), "column_sum": ("column_sum", False),
           "product": ("product", False)}  # fmt: skip
"""Every Triton kernel looked at: its plan, and whether rows are kept in registers."""


def graph(name: str) -> ModuleOp:
    return Parser(new_context(), (FOLDER / "graphs" / f"{name}.mlir").read_text()).parse_module()


def plan_of(name: str, *, weights: frozenset[int] = frozenset()) -> Plan:
    """The plan of a graph that becomes one kernel; `weights` are the group's constant inputs."""
    module = graph(name)
    ExpandPass().apply(GraphContext.of(new_context(), ConstantStore()), module)
    main = only_function(module)
    outline_groups(main, decide_fusion(main))
    copy_shared_results(main)
    (fusion,) = (op for op in main.body.block.ops if isinstance(op, FusionOp))
    return PlanTable().launch_of(fusion, weights).plan


def parse_kernel(text: str) -> KernelOp:
    (kernel,) = Parser(new_context(), text).parse_module().body.block.ops
    assert isinstance(kernel, KernelOp)
    verify_kernel(kernel)
    return kernel


def kernel_of(name: str, *, weights: frozenset[int] = frozenset()) -> KernelOp:
    """The plan as its text says it: what the CPU's emitter reads, too."""
    return parse_kernel(str(plan_of(name, weights=weights).kernel))


def golden(name: str, ending: str) -> Path:
    return FOLDER / "goldens" / f"{name}.{ending}"


def emitted(name: str) -> TritonKernel:
    """The kernel of an entry of EMITTED, from its plan's golden text."""
    plan, whole_rows = EMITTED[name]
    return emit_triton(parse_kernel(golden(plan, "mlir").read_text()), whole_rows=whole_rows)


if __name__ == "__main__":
    (FOLDER / "goldens").mkdir(exist_ok=True)
    for each in GRAPHS:
        golden(each, "mlir").write_text(str(plan_of(each).kernel) + "\n")
    for each in EMITTED:
        golden(each, "py.txt").write_text(emitted(each).source)
