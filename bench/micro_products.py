"""Products of the layers of MiniLM, BERT and Llama: GFLOP/s of anyshape's packed kernel beside PyTorch and the FMA peak.

    python bench/micro_products.py [--element f32|…|f32xbf16] [--threads 1] [--rows 1,8,128] [--models MiniLM,Llama] [--repeats 9]

All run alternately in one process; a row shows medians of both, and their ratio. `peak` is the share of the FMA rate that a loop of
independent f32 FMAs reaches in the same run (f64: half of it; i8: four multiplications a lane, so up to 400%). Several weights of a
shape are used in turn, so that small row counts read weights from memory or the last-level cache, as in a model. Beside a
product of f32 with 16-bit weights PyTorch multiplies by the same weights in f32.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.arith import AddfOp

import anyshape.runtime
from anyshape.cli.timing import settle
from anyshape.codegen.builder import Builder
from anyshape.codegen.contract import contract_schedule, emit_contract
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.codegen.symbols import pack_rhs_name
from anyshape.dialects.dtypes import BY_NAME
from anyshape.dialects.packed_panels import PANEL, packed_depth
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, YieldOp, buffer
from anyshape.support.machine import host_machine
from anyshape.symbolic import Size

SHAPES = {
    "MiniLM": ((384, 384), (1536, 384), (384, 1536)),
    "BERT": ((768, 768), (3072, 768), (768, 3072)),
    "Llama": ((2048, 2048), (5632, 2048), (2048, 5632)),
    "vocabulary": ((32000, 2048),),
    "deep": ((1024, 8192),),
}
"""(columns n, depth k)."""
SYMBOLS = ("m", "n", "k")
WEIGHT_BYTES = 24 << 20
SUMS = {"i8": "i32", "f32xbf16": "f32", "f32xf16": "f32"}
TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8}


def _sides(element: str) -> tuple[str, str]:
    """Element types of activations and weights."""
    left, _, right = element.partition("x")
    return left, right or left


def _linear(element: str) -> tuple[ContractOp, KernelOp]:
    m, n, k = (Size.symbol(name) for name in SYMBOLS)
    lhs_scalar, rhs_scalar = (BY_NAME[name].scalar for name in _sides(element))
    sum_scalar = BY_NAME[SUMS.get(element, element)].scalar
    types = [buffer(lhs_scalar, [m, k]), buffer(rhs_scalar, [(n + 63) // 64, k, 64]), buffer(sum_scalar, [m, n])]
    kernel = KernelOp("linear", SYMBOLS, [*types, buffer(sum_scalar, [n])])
    lhs, rhs, out, bias = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, [], (m, n, k), sum_scalar, packed=True)
    column, sum_ = op.epilogue.block.args[-2:]
    if element == "i8":
        op.epilogue.block.add_op(YieldOp(sum_))
    else:
        load = LoadOp(bias, [column])
        added = AddfOp(sum_, load.result)
        op.epilogue.block.add_ops([load, added, YieldOp(added.result)])
    kernel.body.block.add_op(op)
    return op, kernel


class Linear:
    """The compiled kernel, launched through RAL."""

    def __init__(self, threads: int, element: str) -> None:
        machine, target = host_machine(), host_target()
        self.element = element
        op, self._kernel = _linear(element)
        module = ModuleBuilder("linear", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
        with module:
            emit_kernel(module, self._kernel, machine, {ContractOp: emit_contract})
            _emit_peak(module, machine.f32_lanes)
        text = optimise(lower_to_llvm(module.module), target)
        self._code = LoadedCode([emit_object(text, target), shared_objects(target, machine, (element,))])
        self._schedule = contract_schedule(op, machine)
        self._ral = ctypes.CDLL(str(Path(anyshape.runtime.__path__[0]) / "_ral.so"))
        self._ral.ral_context_create.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._ral.ral_context_create(threads))
        self.threads = threads
        # One thread's processor time does not count what others take from it on a busy machine.
        self.clock: Callable[[], float] = time.thread_time if threads == 1 else time.perf_counter

    def pack(self, weight: torch.Tensor) -> torch.Tensor:
        """The panels of a `[n, k]` weight."""
        n, k = weight.shape
        rows = packed_depth(self.element, k)
        panels = torch.zeros(-(-n // PANEL) * rows * PANEL, dtype=weight.dtype)
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p)
        function = signature(self._code.address(pack_rhs_name(self.element)))
        item = weight.itemsize
        for number in range(-(-n // PANEL)):
            source, into = number * PANEL * k * item, number * rows * PANEL * item
            left = min(PANEL, n - number * PANEL)
            function(weight.data_ptr() + source, 1, k, k, left, panels.data_ptr() + into)
        return panels

    def prepare(
        self, x: torch.Tensor, panels: torch.Tensor, out: torch.Tensor, bias: torch.Tensor
    ) -> Callable[[], None]:
        """A launch over these tensors."""
        tensors = (x, panels, out, bias)
        env: dict[str, int] = dict(zip(SYMBOLS, (x.shape[0], out.shape[1], x.shape[1]), strict=True))
        buffers = (ctypes.c_void_p * 4)(*(tensor.data_ptr() for tensor in tensors))
        sizes = (ctypes.c_int64 * 3)(*env.values())
        schedule = (self._schedule.extent, self._schedule.grain, self._schedule.scratch_bytes)
        numbers = [ctypes.c_int64(size.evaluate(env)) for size in schedule]
        address = ctypes.c_void_p(self._code.address("linear"))

        def launch(keep: tuple[Any, ...] = tensors) -> None:
            # `keep` holds the tensors whose addresses `buffers` has.
            self._ral.ral_launch(self._context, address, buffers, sizes, *numbers)

        return launch

    def peak(self) -> float:
        """GFLOP/s of independent FMAs on all threads, measured on one."""
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._code.address("peak"))
        steps, lanes = 200_000, host_machine().f32_lanes
        result = (ctypes.c_float * (lanes * _CHAINS))()
        start = self.clock()
        run(steps, ctypes.addressof(result))
        return 2e-9 * steps * lanes * _CHAINS * self.threads / (self.clock() - start)


_CHAINS = 12
"""Independent sums: more than latency times units of any machine, and they fit every register file."""


def _emit_peak(module: ModuleBuilder, lanes: int) -> None:
    b = Builder()
    with module.function("peak", [b.i64, b.ptr]) as f:
        steps, result = f.args
        factor = b.load(result, b.f32, width=lanes)
        with b.for_(0, steps, 1, [b.splat(number, b.f32, lanes) for number in range(_CHAINS)]) as loop:
            loop.yield_(*(b.fma(factor, factor, sum_) for sum_ in loop.args))
        for number, sum_ in enumerate(loop.results):
            b.store(sum_, result, number * lanes)


def _random(shape: tuple[int, ...], element: str) -> torch.Tensor:
    if element == "i8":
        return torch.randint(-128, 128, shape, dtype=torch.int8)
    return torch.randn(shape).to(TORCH[element])


def _measure(linear: Linear, m: int, n: int, k: int, repeats: int) -> tuple[float, float, float]:
    """(ours, PyTorch's, the peak's) GFLOP/s, medians."""
    element = linear.element
    left, right = _sides(element)
    x = _random((m, k), left)
    count = max(1, min(8, WEIGHT_BYTES // (x.itemsize * n * k)))
    bias = torch.randn(n).to(TORCH.get(SUMS.get(element, element), torch.int32))
    weights = [_random((n, k), right) for _ in range(count)]
    out = torch.empty((m, n), dtype=bias.dtype)
    launches = [linear.prepare(x, linear.pack(w), out, bias) for w in weights]
    weights = [w.to(x.dtype) for w in weights]

    def ours() -> None:
        for launch in launches:
            launch()

    def theirs() -> None:
        for weight in weights:
            _reference(x, weight, bias)

    ours()
    tolerance = {"bf16": 2e-2, "f16": 3e-3}.get(element, 2e-6) * k
    torch.testing.assert_close(out, _reference(x, weights[-1], bias), rtol=0, atol=0 if element == "i8" else tolerance)
    times: dict[Callable[[], None], list[float]] = {ours: [], theirs: []}
    peaks: list[float] = []
    for _ in range(repeats):
        for function, samples in times.items():
            if linear.threads > 1:
                settle(function)
            start = linear.clock()
            function()
            samples.append(linear.clock() - start)
        peaks.append(linear.peak())
    work = 2e-9 * m * n * k * count
    return work / statistics.median(times[ours]), work / statistics.median(times[theirs]), statistics.median(peaks)


def _reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    if weight.dtype == torch.int8:
        return torch.ops.aten._int_mm(x, weight.T)
    return torch.nn.functional.linear(x, weight, bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--element", default="f32", choices=(*TORCH, "f32xbf16", "f32xf16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="1,8,17,64,128,333,1024")
    parser.add_argument("--models", default="MiniLM,BERT,Llama")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    linear = Linear(options.threads, options.element)
    ratios: list[float] = []
    for model in options.models.split(","):
        for n, k in SHAPES[model]:
            cells: list[str] = []
            for m in map(int, options.rows.split(",")):
                ours, theirs, peak = _measure(linear, m, n, k, options.repeats)
                ratios.append(ours / theirs)
                cells.append(f"{m}: {ours:.0f}/{theirs:.0f} = {ours / theirs:.2f}, peak {ours / peak:.0%}")
            print(f"{model:7} n={n:<5} k={k:<5} {'   '.join(cells)}", flush=True)
    print(f"geometric mean of ours/PyTorch: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
