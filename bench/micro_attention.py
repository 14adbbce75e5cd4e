"""Attention at the shapes of MiniLM, BERT and Llama: microseconds of anyshape's kernel beside PyTorch's scaled_dot_product_attention.

    python bench/micro_attention.py [--threads 1] [--repeats 9]

Both run alternately in one process; a row shows medians, and PyTorch's over ours.
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
from xdsl.dialects.builtin import Float32Type, IntegerType

import anyshape.runtime
from anyshape.codegen.attend import attend_schedule, emit_attend
from anyshape.codegen.llvm import LoadedCode, emit_object, host_target, optimise
from anyshape.codegen.microkernels import shared_objects
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.points import emit_kernel
from anyshape.dialects.tile import AttendOp, KernelOp, buffer
from anyshape.support.machine import host_machine
from anyshape.symbolic import Size

SYMBOLS = ("b", "h", "hk", "s", "t", "d")
CASES = (
    ("MiniLM 1x8", 1, 12, 12, 8, 8, 32), ("MiniLM 1x128", 1, 12, 12, 128, 128, 32), ("MiniLM 8x128", 8, 12, 12, 128, 128, 32),
    ("BERT 1x17", 1, 12, 12, 17, 17, 64), ("BERT 1x128", 1, 12, 12, 128, 128, 64), ("BERT 4x333", 4, 12, 12, 333, 333, 64),
    ("Llama 1x512", 1, 32, 8, 512, 512, 64), ("Llama 1x2048", 1, 8, 2, 2048, 2048, 64), ("one query, 100", 1, 32, 8, 1, 100, 64),
    ("one query, 1000", 1, 32, 8, 1, 1000, 64),
)  # fmt: skip
"""(name, batch, heads, key heads, queries, keys, head size)."""
MASKS = ("none", "bool", "causal")


class Attention:
    """A compiled kernel over [b, s, h, d] buffers, launched through RAL."""

    def __init__(self, threads: int, mask: str) -> None:
        machine, target = host_machine(), host_target()
        b, h, hk, s, t, d = (Size.symbol(name) for name in SYMBOLS)
        f32 = Float32Type()
        rows = [(h, s), (hk, t), (hk, t), (h, s)]
        buffers = [buffer(f32, (b, heads, n, d), (heads * n * d, d, heads * d, 1)) for heads, n in rows]
        if mask == "bool":
            buffers.append(buffer(IntegerType(1), (b, h, s, t), (t, 0, 0, 1)))
        kernel = KernelOp("attention", SYMBOLS, buffers)
        query, key, value, out, *rest = kernel.body.block.args
        sizes = (b, h, hk, s, t, d, d)
        op = AttendOp(query, key, value, out, rest[0] if rest else None, sizes, 0.125, causal=mask == "causal")
        kernel.body.block.add_op(op)
        module = ModuleBuilder("attention", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
        with module:
            emit_kernel(module, kernel, machine, {AttendOp: emit_attend})
        text = optimise(lower_to_llvm(module.module), target)
        self._code = LoadedCode([emit_object(text, target), shared_objects(target, machine)])
        self._schedule = attend_schedule(op, machine)
        self._kernel = kernel
        self._ral = ctypes.CDLL(str(Path(anyshape.runtime.__path__[0]) / "_ral.so"))
        self._ral.ral_context_create.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._ral.ral_context_create(threads))

    def prepare(self, tensors: list[torch.Tensor], values: tuple[int, ...]) -> Callable[[], None]:
        """A launch over these tensors."""
        env = dict(zip(SYMBOLS, values, strict=True))
        buffers = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
        sizes = (ctypes.c_int64 * len(values))(*values)
        schedule = (self._schedule.extent, self._schedule.grain, self._schedule.scratch_bytes)
        numbers = [ctypes.c_int64(size.evaluate(env)) for size in schedule]
        address = ctypes.c_void_p(self._code.address("attention"))

        def launch(keep: tuple[torch.Tensor, ...] = tuple(tensors)) -> None:
            # `keep` holds the tensors whose addresses `buffers` has.
            self._ral.ral_launch(self._context, address, buffers, sizes, *numbers)

        return launch


def both(
    attention: Attention, mask: str, case: tuple[int, ...]
) -> tuple[Callable[[], None], Callable[[], torch.Tensor]]:
    """(ours, PyTorch's) on the same random tensors, after their results were found to agree."""
    b, h, hk, s, t, d = case
    q, out = torch.randn(b, s, h, d), torch.empty(b, s, h, d)
    k, v = torch.randn(b, t, hk, d), torch.randn(b, t, hk, d)
    tensors, options = [q, k, v, out], {"is_causal": mask == "causal"}
    if mask == "bool":
        keep = torch.rand(b, t) < 0.9
        tensors.append(keep)
        options["attn_mask"] = keep[:, None, None, :]
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    ours = attention.prepare(tensors, case)

    def theirs() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(*heads, scale=0.125, enable_gqa=h != hk, **options)

    ours()
    torch.testing.assert_close(out.transpose(1, 2), theirs(), rtol=0, atol=4e-6)
    return ours, theirs


def _measure(attention: Attention, mask: str, case: tuple[int, ...], repeats: int) -> tuple[float, float]:
    """(ours, PyTorch's) seconds, medians."""
    ours, theirs = both(attention, mask, case)
    times: dict[Callable[[], Any], list[float]] = {ours: [], theirs: []}
    for _ in range(repeats):
        for function, samples in times.items():
            start = time.perf_counter()
            function()
            samples.append(time.perf_counter() - start)
    return statistics.median(times[ours]), statistics.median(times[theirs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ratios: list[float] = []
    for mask in MASKS:
        attention = Attention(options.threads, mask)
        for name, *case in CASES:
            ours, theirs = _measure(attention, mask, tuple(case), options.repeats)
            ratios.append(theirs / ours)
            b, h, _, s, t, d = case
            rate = 4e-9 * b * h * s * t * d / ours
            print(
                f"{mask:7} {name:16} {1e6 * ours:9.0f} us {1e6 * theirs:9.0f} us   {theirs / ours:5.2f}   {rate:.0f} GFLOP/s"
            )
    print(f"geometric mean of PyTorch/ours: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
