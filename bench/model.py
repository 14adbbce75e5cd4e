"""The cost model beside measurement: one core's time for kernels of every kind, at sizes from cache to memory.

    python -m bench --only model

The kernels are those that `anyshape.compile` makes; each is launched by itself, natively, on one thread, on the same buffers again and
again, so that its data lie where the model takes them to lie. Beside them stand the register tiles among which the model chooses
(`bench.tiles`) and the blocks (`bench.blocks`), those that it did not choose too. A figure is the least of several short samples.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import anyshape
from anyshape.codegen.attend import attend_time
from anyshape.codegen.builder import Builder
from anyshape.codegen.contract import contract_time
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.dialects.host import LaunchOp
from anyshape.dialects.tile import AttendOp, ContractOp, KernelOp, buffer_of
from anyshape.driver.machine import calibrated_machine
from anyshape.kernels.cost import nanoseconds
from anyshape.kernels.loop_cost import loop_time, loop_work
from anyshape.runtime import runtime
from anyshape.support.machine import Machine
from anyshape.support.options import Options
from anyshape.symbolic import Size
from bench.blocks import block_rows
from bench.tiles import tile_rows

Say = Callable[[str], None]
SAMPLES = 9
SAMPLE_NANOSECONDS = 1_500_000
_ALIGNMENT = 64


class _Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self._function(*tensors)


@dataclass(frozen=True)
class Case:
    """A module compiled once, and the shapes of its inputs at each of its sizes."""

    kind: str
    title: str
    module: Callable[[], torch.nn.Module]
    shapes: Sequence[tuple[tuple[int, ...], ...]]


def _rows(columns: int, *counts: int) -> list[tuple[tuple[int, ...], ...]]:
    return [((count, columns),) for count in counts]


def _attention(batch: int, heads: int, queries: int, keys: int, head: int) -> tuple[tuple[int, ...], ...]:
    return ((batch, heads, queries, head), (batch, heads, keys, head), (batch, heads, keys, head))


CASES = (
    Case("elementwise", "x·y + x", lambda: _Of(lambda x, y: x * y + x),
         [((n,), (n,)) for n in (1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24)]),
    Case("elementwise", "gelu(x)", lambda: _Of(functional.gelu), [((n,),) for n in (1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24)]),
    Case("elementwise", "tanh(x)", lambda: _Of(torch.tanh), [((n,),) for n in (1 << 10, 1 << 16, 1 << 20)]),
    Case("softmax", "softmax", lambda: _Of(lambda x: functional.softmax(x, -1)), _rows(384, 1, 16, 256, 4096, 16384)),
    Case("layer norm", "layer norm", lambda: torch.nn.LayerNorm(384), _rows(384, 1, 16, 256, 4096, 16384)),
    Case("column sum", "column sum", lambda: _Of(lambda x: x.sum(0)), _rows(384, 4, 64, 1024, 16384)),
    Case("product", "384×384", lambda: torch.nn.Linear(384, 384), _rows(384, 1, 2, 4, 8, 17, 64, 128, 333, 1024)),
    Case("product", "768×3072", lambda: torch.nn.Linear(768, 3072), _rows(768, 1, 4, 17, 128, 1024)),
    Case("product", "2048×2048", lambda: torch.nn.Linear(2048, 2048), _rows(2048, 1, 4, 17, 128, 512)),
    Case("product", "x·y", lambda: _Of(torch.matmul), [((n, n), (n, n)) for n in (32, 128, 512)]),
    Case("attention", "attention", lambda: _Of(functional.scaled_dot_product_attention),
         [_attention(1, 12, n, n, 32) for n in (8, 32, 128, 512)] + [_attention(1, 12, 1, n, 64) for n in (100, 1000)]),
)  # fmt: skip


def kernel_time(kernel: KernelOp, machine: Machine) -> Size:
    """What the model expects of a kernel on one core, in ticks."""
    outermost = kernel.body.block.last_op
    if isinstance(outermost, ContractOp):
        return contract_time(outermost, machine)
    if isinstance(outermost, AttendOp):
        return attend_time(outermost, machine)
    return loop_time(loop_work(kernel, machine), machine)


def measure_model(say: Say) -> dict[str, Any]:
    """A row for each kernel at each size, with nanoseconds predicted and measured, and the geometric mean and extremes of
    predicted ÷ measured by kind."""
    options = Options.from_environment()
    machine = calibrated_machine(options.cache)
    rows: list[dict[str, Any]] = []
    for case in CASES:
        say(f"model: {case.title}")
        rows += _case(case, machine)
    say("model: register tiles")
    rows += tile_rows(machine, _least)
    say("model: cache blocks")
    rows += block_rows(machine, _least)
    return {"calibrated": machine.measured is not None, "rows": rows, "errors": errors_of(rows)}


def errors_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """By kind: geometric mean of predicted ÷ measured, its least and greatest value, and the typical factor exp(mean |log ratio|)."""
    result: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        logs = [math.log(row["predicted_ns"] / row["measured_ns"]) for row in rows if row["kind"] == kind]
        result[kind] = {
            "mean": math.exp(sum(logs) / len(logs)),
            "least": math.exp(min(logs)),
            "greatest": math.exp(max(logs)),
            "factor": math.exp(sum(map(abs, logs)) / len(logs)),
        }
    return result


def _case(case: Case, machine: Machine) -> Iterator[dict[str, Any]]:
    torch.manual_seed(0)
    example = [torch.randn(shape) for shape in case.shapes[-1]]
    compiled = anyshape.compile(case.module().eval(), example, options=Options(threads=1))
    stages = compiled.built.stages
    assert stages is not None, "compiled in this process"
    code = LoadedCode([*compiled.built.objects.values(), _loop_object(machine)], runtime().symbols)
    launches = [op for op in stages.program.body.block.ops if isinstance(op, LaunchOp)]
    for shapes in case.shapes:
        sizes = symbols_of(compiled.report().symbols, shapes)
        taken = [launch for launch in launches if launch.condition.evaluate(sizes)]
        for number, launch in enumerate(taken):
            kernel = stages.kernels[launch.kernel_name]
            values = [size.evaluate(sizes) for size in launch.sizes.data]
            predicted = nanoseconds(kernel_time(kernel, machine), dict(zip(kernel.symbol_names, values, strict=True)))
            shape = " · ".join("×".join(map(str, shape)) for shape in dict.fromkeys(shapes))
            part = f" ({number + 1}/{len(taken)})" if len(taken) > 1 else ""
            yield {
                "kind": case.kind,
                "kernel": case.title + part,
                "shape": shape,
                "predicted_ns": predicted,
                "measured_ns": _measure(code, kernel, launch, values, sizes),
            }


def symbols_of(places: Mapping[str, str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The value of each size symbol, which a report places at `argument, axis n`; arguments in the order of their names."""
    names = sorted({place.rpartition(", axis ")[0] for place in places.values()})
    found: dict[str, int] = {}
    for symbol, place in places.items():
        name, _, axis = place.rpartition(", axis ")
        shape = shapes[0] if len(shapes) == 1 or len(names) == 1 else shapes[names.index(name)]
        found[symbol] = shape[int(axis)]
    return found


def _loop_object(machine: Machine) -> bytes:
    """`launch_often(n, context, kernel, buffers, sizes, extent, grain, scratch)`: n launches in a row."""
    module = ModuleBuilder("loop", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        b = Builder()
        arguments = [b.ptr, b.ptr, b.ptr, b.ptr, b.i64, b.i64, b.i64]
        module.declare("ral_launch", arguments, [b.i32])
        with module.function("launch_often", [b.i64, *arguments]) as f:
            count, *rest = f.args
            with b.for_(0, count):
                b.call("ral_launch", rest, [b.i32])
    return emit_object(optimise(lower_to_llvm(module.module), host_target()), host_target())


def _measure(
    code: LoadedCode, kernel: KernelOp, launch: LaunchOp, values: Sequence[int], sizes: Mapping[str, int]
) -> float:
    """Nanoseconds of one launch on one thread."""
    local = dict(zip(kernel.symbol_names, values, strict=True))
    arrays = [_array(buffer_of(argument), local) for argument in kernel.body.block.args]
    table = np.array([array.ctypes.data for array in arrays], np.uint64)
    vector = np.array(values or [0], np.int64)
    numbers = [part.data[0].evaluate(sizes) for part in (launch.extent, launch.grain, launch.scratch)]
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, number, pointer, pointer, pointer, pointer, number, number, number)(
        code.address("launch_often")
    )
    context = runtime().create_context(1)
    address = code.address(kernel.sym_name.data)
    try:
        return _least(lambda count: run(count, context, address, table.ctypes.data, vector.ctypes.data, *numbers))
    finally:
        runtime().library.ral_context_destroy(context)


def _array(buffer: Any, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """Memory for a buffer: 0.25 in every f32, since zeros and huge values have paths of their own. Integers are 0."""
    extents, strides = ([size.evaluate(sizes) for size in part.data] for part in (buffer.sizes, buffer.strides))
    last = sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
    bytes_ = max(1, last + 1) * max(1, buffer.element_type.bitwidth // 8)
    raw = np.zeros(bytes_ + _ALIGNMENT, np.uint8)
    array = raw[-raw.ctypes.data % _ALIGNMENT :][:bytes_]
    array.fill(0)
    if str(buffer.element_type) == "f32":
        array.view(np.float32).fill(0.25)
    return array


def _least(run: Callable[[int], object]) -> float:
    count = 1
    while (elapsed := _timed(run, count)) < SAMPLE_NANOSECONDS:
        count = max(2 * count, int(count * SAMPLE_NANOSECONDS / max(elapsed, 1)))
    return min(_timed(run, count) for _ in range(SAMPLES)) / count


def _timed(run: Callable[[int], object], count: int) -> int:
    # One thread's processor time does not count what others take from it on a busy machine.
    start = time.thread_time_ns()
    run(count)
    return time.thread_time_ns() - start
