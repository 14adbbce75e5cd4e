"""Products of the layers of MiniLM, BERT and Llama: GFLOP/s of anyshape's packed kernel beside PyTorch's F.linear.

    python bench/micro_products.py [--threads 1] [--rows 1,8,128] [--repeats 9]

Both run alternately in one process; a row shows medians, and the ratio of the medians. Several weights of a shape are used in
turn, so that small row counts read weights from memory or the last-level cache, as in a model.
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

import numpy as np
import torch
from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import Float32Type

import anyshape.runtime
from anyshape.codegen.contract import contract_schedule, emit_contract, pack_panels
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.dialects.tile import ContractOp, KernelOp, LoadOp, YieldOp, buffer
from anyshape.support.machine import host_machine
from anyshape.symbolic import Size

SHAPES = {
    "MiniLM": ((384, 384), (1536, 384), (384, 1536)),
    "BERT": ((768, 768), (3072, 768), (768, 3072)),
    "Llama": ((2048, 2048), (5632, 2048), (2048, 5632)),
}
"""(columns n, depth k)."""
SYMBOLS = ("m", "n", "k")
WEIGHT_BYTES = 24 << 20


def _linear() -> tuple[ContractOp, KernelOp]:
    m, n, k = (Size.symbol(name) for name in SYMBOLS)
    f32 = Float32Type()
    buffers = [buffer(f32, [m, k]), buffer(f32, [(n + 63) // 64, k, 64]), buffer(f32, [m, n]), buffer(f32, [n])]
    kernel = KernelOp("linear", SYMBOLS, buffers)
    lhs, rhs, out, bias = kernel.body.block.args
    op = ContractOp(lhs, rhs, out, [], (m, n, k), f32, packed=True)
    column, sum_ = op.epilogue.block.args[-2:]
    load = LoadOp(bias, [column])
    added = AddfOp(sum_, load.result)
    op.epilogue.block.add_ops([load, added, YieldOp(added.result)])
    kernel.body.block.add_op(op)
    return op, kernel


class Linear:
    """The compiled kernel, launched through RAL."""

    def __init__(self, threads: int) -> None:
        machine, target = host_machine(), host_target()
        op, self._kernel = _linear()
        module = ModuleBuilder("linear", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
        with module:
            emit_kernel(module, self._kernel, machine, {ContractOp: emit_contract})
        text = optimise(lower_to_llvm(module.module), target)
        self._code = LoadedCode([emit_object(text, target), shared_objects(target, machine)])
        self._schedule = contract_schedule(op, machine)
        self._ral = ctypes.CDLL(str(Path(anyshape.runtime.__path__[0]) / "_ral.so"))
        self._ral.ral_context_create.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._ral.ral_context_create(threads))

    def prepare(self, x: Any, panels: Any, out: Any, bias: Any) -> Callable[[], None]:
        """A launch over these arrays."""
        arrays = (x, panels, out, bias)
        env = dict(zip(SYMBOLS, (x.shape[0], out.shape[1], x.shape[1]), strict=True))
        buffers = (ctypes.c_void_p * 4)(*(array.ctypes.data for array in arrays))
        sizes = (ctypes.c_int64 * 3)(*env.values())
        schedule = (self._schedule.extent, self._schedule.grain, self._schedule.scratch_bytes)
        numbers = [ctypes.c_int64(size.evaluate(env)) for size in schedule]
        address = ctypes.c_void_p(self._code.address("linear"))

        def launch(keep: tuple[Any, ...] = arrays) -> None:
            # `keep` holds the arrays whose addresses `buffers` has.
            self._ral.ral_launch(self._context, address, buffers, sizes, *numbers)

        return launch


def _measure(linear: Linear, m: int, n: int, k: int, repeats: int) -> tuple[float, float]:
    """(ours, PyTorch's) GFLOP/s, medians."""
    count = max(1, min(8, WEIGHT_BYTES // (4 * n * k)))
    x, bias = torch.randn(m, k), torch.randn(n)
    weights = [torch.randn(n, k) for _ in range(count)]
    out = np.empty((m, n), np.float32)
    launches = [linear.prepare(x.numpy(), pack_panels(w.numpy().T), out, bias.numpy()) for w in weights]

    def ours() -> None:
        for launch in launches:
            launch()

    def theirs() -> None:
        for weight in weights:
            torch.nn.functional.linear(x, weight, bias)

    ours()
    theirs()
    np.testing.assert_allclose(out, torch.nn.functional.linear(x, weights[-1], bias).numpy(), rtol=0, atol=2e-6 * k)
    times: dict[Callable[[], None], list[float]] = {ours: [], theirs: []}
    for _ in range(repeats):
        for function, samples in times.items():
            start = time.perf_counter()
            function()
            samples.append(time.perf_counter() - start)
    work = 2e-9 * m * n * k * count
    return work / statistics.median(times[ours]), work / statistics.median(times[theirs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="1,8,17,64,128,333,1024")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    linear = Linear(options.threads)
    ratios: list[float] = []
    for model, shapes in SHAPES.items():
        for n, k in shapes:
            cells: list[str] = []
            for m in map(int, options.rows.split(",")):
                ours, theirs = _measure(linear, m, n, k, options.repeats)
                ratios.append(ours / theirs)
                cells.append(f"{m}: {ours:.0f}/{theirs:.0f} = {ours / theirs:.2f}")
            print(f"{model:7} n={n:<5} k={k:<5} {'   '.join(cells)}", flush=True)
    print(f"geometric mean of ours/PyTorch: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
