"""Small kernels whose times are the machine's rates: what `anyshape bench --calibrate` runs.

All work on one thread but `launch_often`, which launches `spin` through RAL. Every loop ends in a store, so that nothing is left out.
"""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.llvm import Target, emit_optimised_object
from anyshape.codegen.mlir import ModuleBuilder, lower_to_llvm
from anyshape.codegen.vector_math import exp
from anyshape.support.machine import Machine

CHAINS = 12
"""Independent sums: more than latency times units of any machine, and they fit every register file."""
READS = 8
"""Vectors that a step of `read` loads."""
SPIN_POINTS = 8
"""Points of a launch of `spin`: as many as two threads are given chunks."""


def calibration_object(machine: Machine, target: Target) -> bytes:
    """An object that defines, for n > 0 everywhere:

    | function | work |
    |---|---|
    | `multiply_add(n, out)` | n steps of CHAINS vector multiply-adds |
    | `add(n, out)` | n steps of CHAINS vector additions |
    | `read(n, passes, in, out)` | loads n f32 `passes` times over, n a multiple of READS vectors |
    | `exponentials(n, passes, in, out)` | out[i] = exp(in[i]) for n f32, `passes` times over, n a multiple of a vector |
    | `launch_often(n, context, buffers, sizes)` | n launches of SPIN_POINTS points of `spin`, each of sizes[0] dependent steps |
    """
    module = ModuleBuilder("calibration", function_attributes={"prefer-vector-width": str(machine.vector_bits)})
    with module:
        _emit_chains(module, "multiply_add", machine.f32_lanes)
        _emit_chains(module, "add", machine.f32_lanes)
        _emit_read(module, machine.f32_lanes)
        _emit_exponentials(module, machine)
        _emit_spin(module)
        _emit_launch_often(module)
    return emit_optimised_object(lower_to_llvm(module.module), target)


def _emit_chains(module: ModuleBuilder, name: str, lanes: int) -> None:
    b = Builder()
    with module.function(name, [b.i64, b.ptr]) as f:
        steps, out = f.args
        factor = b.load(out, b.f32, width=lanes)
        with b.for_(0, steps, 1, [b.splat(number, b.f32, lanes) for number in range(CHAINS)]) as loop:
            if name == "add":
                loop.yield_(*(b.add(sum_, factor) for sum_ in loop.args))
            else:
                loop.yield_(*(b.fma(factor, factor, sum_) for sum_ in loop.args))
        for number, sum_ in enumerate(loop.results):
            b.store(sum_, out, number * lanes)


def _emit_read(module: ModuleBuilder, lanes: int) -> None:
    """The words are or-ed together: the operation with the most units, so that loads are what takes time."""
    b = Builder()
    with module.function("read", [b.i64, b.i64, b.ptr, b.ptr]) as f:
        count, passes, source, out = f.args
        zeros = [b.splat(0, b.i32, lanes) for _ in range(READS)]
        with b.for_(0, passes, 1, zeros) as outer:
            with b.for_(0, count, READS * lanes, outer.args) as loop:
                start = b.offset(source, b.i32, loop.index)
                loop.yield_(
                    *(
                        b.or_(word, b.load(start, b.i32, number * lanes, width=lanes))
                        for number, word in enumerate(loop.args)
                    )
                )
            outer.yield_(*loop.results)
        for number, word in enumerate(outer.results):
            b.store(word, out, number * lanes)


def _emit_exponentials(module: ModuleBuilder, machine: Machine) -> None:
    b, lanes = Builder(machine.features), machine.f32_lanes
    with module.function("exponentials", [b.i64, b.i64, b.ptr, b.ptr]) as f:
        count, passes, source, out = f.args
        with b.for_(0, passes), b.for_(0, count, lanes) as loop:
            b.store(exp(b, b.load(source, b.f32, loop.index, width=lanes)), out, loop.index)


def _emit_spin(module: ModuleBuilder) -> None:
    """A kernel with RAL's signature: a chain of multiply-adds at each point."""
    b = Builder()
    with module.function("spin", [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]) as f:
        buffers, sizes, begin, end = f.args[:4]
        out, steps = b.load(buffers, b.ptr), b.load(sizes, b.i64)
        with b.for_(begin, end) as point:
            # A cache line for each point: what is measured is the pool, not two threads that write to one line.
            place = b.mul(point.index, 16)
            start = b.load(out, b.f32, place)
            with b.for_(0, steps, 1, [start]) as chain:
                chain.yield_(b.fma(chain.args[0], start, start))
            b.store(chain.results[0], out, place)


def _emit_launch_often(module: ModuleBuilder) -> None:
    b = Builder()
    signature = [b.ptr, b.ptr, b.i64, b.i64, b.ptr, b.ptr]
    module.declare("ral_launch", [b.ptr, b.ptr, b.ptr, b.ptr, b.i64, b.i64, b.i64], [b.i32])
    with module.function("launch_often", [b.i64, b.ptr, b.ptr, b.ptr]) as f:
        count, context, buffers, sizes = f.args
        kernel = b.function_address("spin", signature)
        points, grain, scratch = (b.const(b.i64, number) for number in (SPIN_POINTS, 1, 0))
        with b.for_(0, count):
            b.call("ral_launch", [context, kernel, buffers, sizes, points, grain, scratch], [b.i32])
