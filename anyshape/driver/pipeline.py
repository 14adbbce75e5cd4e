"""THE list of graph passes, and what runs them: times, dumps, verification and reproducers."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from anyshape.dialects.arrays import ConstantStore
from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.driver.fuse import FusePass
from anyshape.passes.canonicalise_products import CanonicaliseProductsPass
from anyshape.passes.context import GraphContext
from anyshape.passes.cse import CsePass
from anyshape.passes.dce import DcePass
from anyshape.passes.expand import ExpandPass
from anyshape.passes.fold import FoldPass
from anyshape.passes.hoist_scales import HoistScalesPass
from anyshape.passes.merge_products import MergeProductsPass
from anyshape.passes.simplify import SimplifyPass
from anyshape.passes.sink_reshapes import SinkReshapesPass
from anyshape.passes.split_reductions import SplitReductionsPass
from anyshape.passes.update_in_place import UpdateInPlacePass
from anyshape.passes.verify import VerifyPass
from anyshape.support.errors import AnyshapeError
from anyshape.support.options import Options
from anyshape.support.trace import Trace

GRAPH_PASSES: tuple[ModulePass, ...] = (
    VerifyPass(),  # what the front end built keeps the invariants
    SimplifyPass(),  # laws that hold of whole composites, and sizes in their simplest form
    ExpandPass(),  # softmax, layer norm, … in simple ops, so that fusion sees inside
    SimplifyPass(),  # laws on what the expansions left
    SinkReshapesPass(),  # elementwise ops next to the products that they follow
    HoistScalesPass(),  # scales of stored integers behind their products
    CanonicaliseProductsPass(),  # factors as matrices
    MergeProductsPass(),  # q, k and v are slices of one product
    DcePass(),  # the products that were merged, so that their weights have one use
    FoldPass(),  # what depends on constants only
    SimplifyPass(),  # reshapes, transposes and constants that now meet
    SplitReductionsPass(),  # long reductions in chunks
    CsePass(),  # equal ops once
    DcePass(),  # what no result needs
    UpdateInPlacePass(),  # results that lie in an argument's memory
)
"""The pipeline, in order. A pass may stand here more than once."""

PASSES: Mapping[str, type[ModulePass]] = {each.name: type(each) for each in (*GRAPH_PASSES, FusePass())}
"""Every pass by the name that `anyshape opt -p` takes."""


class PassError(AnyshapeError, RuntimeError):
    """A graph pass failed, or left a graph that breaks an invariant."""


def run_graph_passes(
    module: ModuleOp,
    store: ConstantStore,
    trace: Trace,
    options: Options,
    context: Context | None = None,
    passes: Sequence[ModulePass] = GRAPH_PASSES,
) -> None:
    """Run `passes` over `module` in place; arrays that they make go into `store`.

    Each pass is a stage of `trace`, and is followed by a dump where dumps are asked for and by `verify_graph` where
    `options.verify` is set.

    Raises:
        PassError: a pass failed; it names the command that replays the failure on the text before the pass.
    """
    graph_context = GraphContext.of(context or new_context(), store)
    start = module.clone()
    with trace.stage("passes", total=len(passes)):
        for number, each in enumerate(passes):
            trace.step(number, len(passes))
            try:
                _run_pass(each, module, graph_context, trace, options)
            except Exception as error:
                before = _replayed(start, passes[:number], graph_context)
                raise _pass_error(each, before, error, options.dump) from error


def _run_pass(each: ModulePass, module: ModuleOp, context: GraphContext, trace: Trace, options: Options) -> None:
    before = _count_ops(module) if trace.enabled("passes") else Counter[str]()
    with trace.stage(each.name):
        each.apply(context, module)
    if options.verify:
        verify_graph(module)
    trace.log("passes", lambda: _change(each.name, before, _count_ops(module)))
    trace.dump(each.name, "mlir", lambda: str(module))


def _replayed(start: ModuleOp, passes: Sequence[ModulePass], context: GraphContext) -> ModuleOp:
    """The graph after `passes`: they give the same each time, so no copy need be kept before every pass."""
    for each in passes:
        each.apply(context, start)
    return start


def _pass_error(each: ModulePass, before: ModuleOp, error: Exception, directory: Path | None) -> PassError:
    path = write_reproducer(each, before, directory)
    return PassError(
        f"pass {each.name} failed: {error}",
        where=f"{path} (the graph before the pass)",
        remedy=f"replay it with: {_command(each, path)}",
    )


def write_reproducer(each: ModulePass, before: ModuleOp, directory: Path | None) -> Path:
    """Write the module's text, under a comment with the command that runs the pass on it, to a new file.

    The file goes to `directory`, or to the system's place for temporary files.
    """
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=f"reproduce-{each.name}-", suffix=".mlir", dir=directory, delete=False
    ) as file:
        path = Path(file.name)
        file.write(f"// {_command(each, path)}\n{before!s}\n")
    return path


def _command(each: ModulePass, path: Path) -> str:
    return f"anyshape opt {path} -p '{each.spec()}'"


def _count_ops(module: ModuleOp) -> Counter[str]:
    return Counter(op.name.removeprefix("dhlo.") for op in module.walk())


def _change(name: str, before: Counter[str], after: Counter[str]) -> str:
    """`simplify: 120 -> 96 ops (add 12 -> 8, …)`; nothing where the numbers of ops are the same."""
    kinds = [
        f"{kind} {before[kind]} -> {after[kind]}" for kind in sorted(before | after) if before[kind] != after[kind]
    ]
    return f"{name}: {before.total()} -> {after.total()} ops ({', '.join(kinds)})" if kinds else ""


__all__ = ["GRAPH_PASSES", "PASSES", "PassError", "run_graph_passes", "write_reproducer"]
