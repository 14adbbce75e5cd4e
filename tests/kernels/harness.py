"""Runs one graph in every way it can be run: op by op, by its plans in numpy, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from anyshape.codegen.tiles.pack import pack_panels
from anyshape.dialects.arrays import ConstantEntry
from anyshape.dialects.block_formats import block_format
from anyshape.dialects.dhlo import Array, ConstantStore, Weight
from anyshape.dialects.dhlo.fusion import FusionOp
from anyshape.dialects.dhlo.graph import facts_of
from anyshape.dialects.dhlo.interpreter import evaluate
from anyshape.dialects.dtypes import dtype_of_numpy
from anyshape.dialects.host import ProgramOp
from anyshape.dialects.host.interpreter import run_program
from anyshape.dialects.packed_blocks import PackedBlocks
from anyshape.dialects.sizes import dtype_of, sizes_of
from anyshape.dialects.tile import KernelOp
from anyshape.dialects.tile.verify import verify_kernel
from anyshape.driver.build import build_objects, load_program
from anyshape.driver.pipeline import run_graph_passes
from anyshape.fusion import Decision, RowLimits, add_long_rows, copy_shared_results, decide_fusion, outline_groups
from anyshape.host import LaunchShape, build_program
from anyshape.kernels import PlanTable, why_no_prologue
from anyshape.runtime import numpy_adaptor
from anyshape.support.machine import Machine
from anyshape.support.options import Options
from anyshape.support.trace import Trace
from anyshape.symbolic import Size
from tests.dialects.packing import pack_panels as pack_blocks
from tests.kernels.nesting import check_nesting

OPTIONS = Options(verify=True, threads=2)
ONE_THREAD = Machine()
"""What plans are made for: there every prologue that is possible pays."""
LIMITS = RowLimits(cached=1 << 16, busy=4)
Run = Callable[[Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class Planned:
    """A graph cut into kernels; nothing is compiled. `func` holds the fusions, `decision` says why they are as they are."""

    func: FuncOp
    decision: Decision
    program: ProgramOp
    kernels: Mapping[str, KernelOp]
    constants: tuple[Array, ...]

    @property
    def fusions(self) -> list[FusionOp]:
        return [op for op in self.func.body.block.ops if isinstance(op, FusionOp)]

    @property
    def kinds(self) -> list[str]:
        """The kind of every kernel launched, in order."""
        return [fusion.kind.data for fusion in self.fusions]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The graph's results by its plans, run by numpy."""
        return run_program(self.program, self.kernels, inputs, self.constants)


def module_of(func: FuncOp) -> ModuleOp:
    """A module with a copy of the function, since passes rewrite it in place."""
    return ModuleOp([func.clone()])


def prepared(func: FuncOp, store: ConstantStore) -> FuncOp:
    """A copy of `func` after all graph passes, as fusion sees it."""
    module = module_of(func)
    run_graph_passes(module, store, Trace.from_options(OPTIONS), OPTIONS)
    return next(op for op in module.body.block.ops if isinstance(op, FuncOp))


def plan(func: FuncOp, store: ConstantStore | None = None, limits: RowLimits = LIMITS) -> Planned:
    """Fuse and plan a copy of `func`; every plan is verified. Rows beyond the limits have a second form."""
    store = ConstantStore() if store is None else store
    main = prepared(func, store)
    decision = decide_fusion(main, lambda proposal: why_no_prologue(proposal, ONE_THREAD))
    outline_groups(main, decision)
    copy_shared_results(main)
    add_long_rows(main, limits)
    main.verify()
    table, launches = PlanTable(), {}
    for fusion in main.body.block.ops:
        if isinstance(fusion, FusionOp):
            constant = frozenset(i for i, value in enumerate(fusion.inputs) if isinstance(value.owner, Weight))
            launches[fusion] = table.launch_of(fusion, constant)
            launches |= {other: table.launch_of(other, frozenset()) for other in fusion.fusions[1:]}
    kernels = {each.kernel.sym_name.data: each.kernel for each in table.plans.values()}
    one = Size.const(1)
    shapes = {each.kernel.sym_name.data: LaunchShape(each.extent or one, one, one) for each in table.plans.values()}
    for kernel in kernels.values():
        verify_kernel(kernel)
    for launch in launches.values():
        check_nesting(launch)
    names = [f"x{index}" for index in range(len(main.body.block.args))]
    built = build_program(main, names, facts_of(main).relations(), launches, shapes, table.sites)
    return Planned(main, decision, built.program, kernels, tuple(_array_of(entry, store) for entry in built.constants))


def _array_of(entry: ConstantEntry, store: ConstantStore) -> Array:
    """An entry of the constant table, packed by numpy."""
    weight, p = np.ascontiguousarray(store[entry.weight]), entry.packed
    if p is None:
        return weight
    if isinstance(p, PackedBlocks):
        panels = np.zeros(p.shape, np.uint8)
        pack_blocks(block_format(p.format), weight, panels)
        return panels
    strides = (p.k_stride * weight.itemsize, p.n_stride * weight.itemsize)
    return pack_panels(np.lib.stride_tricks.as_strided(weight, (p.k, p.n), strides))


def compiled(func: FuncOp, store: ConstantStore | None = None) -> Run:
    """The graph's results by machine code."""
    names = [f"x{index}" for index in range(len(func.body.block.args))]
    built = build_objects(
        module_of(func), names, ConstantStore() if store is None else store, OPTIONS, Trace.from_options(OPTIONS)
    )
    program = load_program(built, 2)
    outputs = [dtype_of(value.type).numpy for value in func.body.block.last_op.operands]

    def run(inputs: Sequence[Array]) -> list[Array]:
        bits = [array.view(np.uint16) if dtype_of_numpy(array.dtype).name == "bf16" else array for array in inputs]
        return [each.view(dtype) for each, dtype in zip(numpy_adaptor.run(program, bits), outputs, strict=True)]

    return run


def reference(func: FuncOp, store: ConstantStore | None = None) -> Run:
    """The graph's results op by op, each op's own numpy reference."""
    return lambda inputs: evaluate(func, inputs, ConstantStore() if store is None else store)


def assert_same(got: Sequence[Array], expected: Sequence[Array], message: str, relative: float = 2e-4) -> None:
    """Equal shapes, dtypes and non-finite elements; finite ones differ by `relative` of the tensor's scale at most.

    The scale of a tensor is its largest finite magnitude, 1 at least: sums are folded in any order.
    """
    assert len(got) == len(expected), f"{message}: {len(got)} results, expected {len(expected)}"
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        where = f"{message}, result {number}"
        assert a.shape == b.shape and a.dtype == b.dtype, f"{where}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b, err_msg=where)
            continue
        wide, exact = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(np.where(finite, 0, exact), np.where(finite, 0, wide), err_msg=where)
        scale = max(1.0, float(np.abs(exact[finite]).max(initial=0)))
        np.testing.assert_allclose(wide[finite], exact[finite], 0, relative * scale, err_msg=where)


def inputs_of(func: FuncOp, env: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Arguments for these sizes: normal floats, integers in [0, 3), both truth values."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in func.body.block.args:
        dtype, sizes = dtype_of(argument.type), [size.evaluate(env) for size in sizes_of(argument.type)]
        numbers = rng.standard_normal(sizes) if dtype.is_float else rng.integers(0, 2 if dtype.is_bool else 3, sizes)
        arrays.append(np.asarray(numbers).astype(dtype.numpy))
    return arrays


def check(
    func: FuncOp, envs: Sequence[Mapping[str, int]], store: ConstantStore | None = None, *, compile: bool = True,
    relative: float = 2e-4, label: str = "",
) -> Planned:  # fmt: skip
    """Assert reference = plans = machine code at these sizes; returns the plans."""
    planned = plan(func, store)
    ways: dict[str, Run] = {"plans": planned.run}
    if compile:
        ways["compiled"] = compiled(func, store)
    expected = reference(func, store)
    for number, env in enumerate(envs):
        inputs = inputs_of(func, env, number)
        with np.errstate(all="ignore"):
            wanted = expected(inputs)
            for way, run in ways.items():
                assert_same(run(inputs), wanted, f"{label} {way} at {dict(env)}", relative)
    return planned


__all__ = ["OPTIONS", "Planned", "assert_same", "check", "compiled", "inputs_of", "plan", "prepared", "reference"]
