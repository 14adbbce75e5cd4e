"""Plans for accesses, reductions, element types and indices."""

from __future__ import annotations

from points_plans import F32, B, K, M, N, Plan
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, IntegerType, i32, i64
from xdsl.ir import Attribute

from anyshape.dialects.tile import KernelOp, buffer
from anyshape.symbolic import Size

I1, I8 = IntegerType(1), IntegerType(8)
F16, BF16, F64 = Float16Type(), BFloat16Type(), Float64Type()


def column_sum() -> KernelOp:
    """out[j] = Σ_i x[i, j]: a loop inside lanes, lanes outermost."""
    plan = Plan("column_sum", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [N])])
    x, out = plan.buffers
    with plan.lanes(N) as (j, _):
        with plan.loop(B, ["sum"], [F32]) as (i, total):
            plan.yield_(plan.load(x, i, j))
        plan.store(total.results[0], out, j)
    return plan.kernel


def transpose() -> KernelOp:
    """out[i, j] = x[j, i]: strided loads."""
    plan = Plan("transpose", ["b", "n"], [buffer(F32, [N, B]), buffer(F32, [B, N])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        plan.store(plan.load(x, j, i), out, i, j)
    return plan.kernel


def scatter_columns() -> KernelOp:
    """out[2·j + 1] = x[j]: strided stores, and a lane axis that is outermost."""
    plan = Plan("scatter_columns", ["n"], [buffer(F32, [N]), buffer(F32, [N * 2 + 1])])
    x, out = plan.buffers
    with plan.lanes(N) as (j, _):
        target = plan.math.add(plan.math.mul(j, plan.index(2)), plan.index(1))
        plan.store(plan.load(x, j), out, target)
    return plan.kernel


def open_broadcast() -> KernelOp:
    """out[i, j] = x[i, j] + y[i or 0, j or 0], where each axis of y is 1 or that of x."""
    plan = Plan("open_broadcast", ["b", "n", "m", "k"], [buffer(F32, [B, N]), buffer(F32, [M, K]), buffer(F32, [B, N])])
    x, y, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        zero, one = plan.index(0), plan.index(1)
        row = plan.math.select(plan.math.compare("eq", plan.size(M), one), zero, i)
        column = plan.math.select(plan.math.compare("eq", plan.size(K), one), zero, j)
        plan.store(plan.math.add(plan.load(x, i, j), plan.load(y, row, column)), out, i, j)
    return plan.kernel


def embedding() -> KernelOp:
    """out[i, j] = table[ids[i], j], ids checked; the load is guarded by the check."""
    plan = Plan("embedding", ["b", "m", "n"], [buffer(F32, [M, N]), buffer(i64, [B]), buffer(F32, [B, N])])
    table, ids, out = plan.buffers
    with plan.parallel(B) as (i,):
        row = plan.math.to_index(plan.load(ids, i))
        inside = plan.check(row, M, 7)
        with plan.lanes(N) as (j, _):
            plan.store(plan.load(table, row, j, guard=inside), out, i, j)
    return plan.kernel


def embedding_inside() -> KernelOp:
    """`embedding` with everything inside the lanes."""
    plan = Plan("embedding_inside", ["b", "m", "n"], [buffer(F32, [M, N]), buffer(i64, [B]), buffer(F32, [B, N])])
    table, ids, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        row = plan.math.to_index(plan.load(ids, i))
        plan.store(plan.load(table, row, j, guard=plan.check(row, M, 7)), out, i, j)
    return plan.kernel


def take() -> KernelOp:
    """out[j] = x[ids[j]] with ids (i32) checked lane by lane."""
    plan = Plan("take", ["m", "n"], [buffer(F32, [M]), buffer(i32, [N]), buffer(F32, [N])])
    x, ids, out = plan.buffers
    with plan.lanes(N) as (j, _):
        at = plan.math.to_index(plan.load(ids, j))
        plan.store(plan.load(x, at, guard=plan.check(at, M, 3)), out, j)
    return plan.kernel


def pad() -> KernelOp:
    """out[i, j] = x[i − 1, j − 2] where inside, else −1; out has 3 more columns and 2 more rows."""
    plan = Plan("pad", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B + 2, N + 3])])
    x, out = plan.buffers
    with plan.parallel(B + 2) as (i,), plan.lanes(N + 3) as (j, _):
        row, column = plan.math.sub(i, plan.index(1)), plan.math.sub(j, plan.index(2))
        inside = plan.math.logical_and(
            plan.math.compare("lt", row, plan.size(B), unsigned=True),
            plan.math.compare("lt", column, plan.size(N), unsigned=True),
        )
        loaded = plan.load(x, row, column, guard=inside)
        plan.store(plan.math.select(inside, loaded, plan.number(-1.0)), out, i, j)
    return plan.kernel


def iota() -> KernelOp:
    """out[i, j] = 10·i + (j mod 7): index arithmetic as data."""
    plan = Plan("iota", ["b", "n"], [buffer(i64, [B, N])])
    (out,) = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        rest = plan.math.trunc_rem(j, plan.index(7), unsigned=True)
        number = plan.math.add(plan.math.mul(i, plan.index(10)), rest)
        plan.store(plan.math.from_index(number, i64), out, i, j)
    return plan.kernel


def map_of(name: str, element: Attribute) -> KernelOp:
    """out[i, j] = x · y + x (integers wrap, bools: and, or)."""
    plan = Plan(name, ["b", "n"], [buffer(element, [B, N])] * 3)
    x, y, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        a, c = plan.load(x, i, j), plan.load(y, i, j)
        plan.store(plan.math.add(plan.math.mul(a, c), a), out, i, j)
    return plan.kernel


def divide_integers() -> KernelOp:
    """out[j] = x[j] / y[j] and x[j] rem y[j], y never 0: masked lanes must not trap."""
    plan = Plan("divide_integers", ["n"], [buffer(i32, [N])] * 4)
    x, y, quotient, rest = plan.buffers
    with plan.lanes(N) as (j, _):
        a, c = plan.load(x, j), plan.load(y, j)
        plan.store(plan.math.trunc_div(a, c), quotient, j)
        plan.store(plan.math.trunc_rem(a, c), rest, j)
    return plan.kernel


def compare() -> KernelOp:
    """out[j] = (x[j] < y[j]) and keep[j], bools in bytes."""
    plan = Plan("compare", ["n"], [buffer(F32, [N]), buffer(F32, [N]), buffer(I1, [N]), buffer(I1, [N])])
    x, y, keep, out = plan.buffers
    with plan.lanes(N) as (j, _):
        less = plan.math.compare("lt", plan.load(x, j), plan.load(y, j))
        plan.store(plan.math.logical_and(less, plan.load(keep, j)), out, j)
    return plan.kernel


def maximum() -> KernelOp:
    """out[j] = max(x[j], y[j]), NaN if either is; low[j] = min(x[j], 1)."""
    plan = Plan("maximum", ["n"], [buffer(F32, [N])] * 4)
    x, y, out, low = plan.buffers
    with plan.lanes(N) as (j, _):
        a, c = plan.load(x, j), plan.load(y, j)
        plan.store(plan.math.maximum(a, c), out, j)
        plan.store(plan.math.minimum(a, plan.number(1.0)), low, j)
    return plan.kernel


def reduce_rows(name: str, kinds: list[str], element: Attribute) -> KernelOp:
    """out[r, i] = the r-th reduction of row i."""
    plan = Plan(name, ["b", "n"], [buffer(element, [B, N]), buffer(element, [len(kinds), B])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,):
        with plan.lanes(N, kinds, [element] * len(kinds)) as (j, op):
            value = plan.load(x, i, j)
            plan.yield_(*[value] * len(kinds))
        for number, result in enumerate(op.results):
            plan.store(result, out, plan.index(number), i)
    return plan.kernel


def reduce_columns(name: str, kinds: list[str], element: Attribute) -> KernelOp:
    """out[r, j] = the r-th reduction of column j."""
    plan = Plan(name, ["b", "n"], [buffer(element, [B, N]), buffer(element, [len(kinds), N])])
    x, out = plan.buffers
    with plan.lanes(N) as (j, _):
        with plan.loop(B, kinds, [element] * len(kinds)) as (i, op):
            value = plan.load(x, i, j)
            plan.yield_(*[value] * len(kinds))
        for number, result in enumerate(op.results):
            plan.store(result, out, plan.index(number), j)
    return plan.kernel


def channel_sum() -> KernelOp:
    """out[c] = Σ_b Σ_n x[b, c, n]: lanes inside a loop inside parallel."""
    plan = Plan("channel_sum", ["b", "m", "n"], [buffer(F32, [B, M, N]), buffer(F32, [M])])
    x, out = plan.buffers
    with plan.parallel(M) as (c,):
        with plan.loop(B, ["sum"], [F32]) as (i, outer):
            with plan.lanes(N, ["sum"], [F32]) as (j, inner):
                plan.yield_(plan.load(x, i, c, j))
            plan.yield_(inner.results[0])
        plan.store(outer.results[0], out, c)
    return plan.kernel


def product(name: str = "product", element: Attribute = F32) -> KernelOp:
    """out[g, i, j] = Σ_k x[g, i, k] · y[g, k, j] + z[j]: a dot under parallel rows and lanes."""
    plan = Plan(
        name,
        ["b", "m", "n", "k"],
        [buffer(element, [B, M, K]), buffer(element, [B, K, N]), buffer(element, [N]), buffer(element, [B, M, N])],
    )
    x, y, z, out = plan.buffers
    with plan.parallel(B, M) as (g, i), plan.lanes(N) as (j, _):
        with plan.dot(K, element) as (k, total):
            plan.yield_(plan.load(x, g, i, k), plan.load(y, g, k, j))
        plan.store(plan.math.add(total.result, plan.load(z, j)), out, g, i, j)
    return plan.kernel


def row_dot() -> KernelOp:
    """out[i] = Σ_k x[i, k] · y[k]: a dot without lanes around it."""
    plan = Plan("row_dot", ["b", "k"], [buffer(F32, [B, K]), buffer(F32, [K]), buffer(F32, [B])])
    x, y, out = plan.buffers
    with plan.parallel(B) as (i,):
        with plan.dot(K) as (k, total):
            plan.yield_(plan.load(x, i, k), plan.load(y, k))
        plan.store(total.result, out, i)
    return plan.kernel


def half_softmax(name: str, element: Attribute) -> KernelOp:
    """out[i, :] = softmax of a row of a narrow float type, computed in f32."""
    plan = Plan(name, ["b", "n"], [buffer(element, [B, N])] * 2)
    x, out = plan.buffers
    with plan.parallel(B) as (i,):
        row = plan.scratch(N)
        with plan.lanes(N, ["max"], [element]) as (j, top):
            plan.yield_(plan.load(x, i, j))
        with plan.lanes(N, ["sum"], [F32]) as (j, total):
            wide = plan.add(arith.ExtFOp(plan.math.sub(plan.load(x, i, j), top.results[0]), F32))
            e = plan.math.function("exp", wide)
            plan.store(e, row, j)
            plan.yield_(e)
        with plan.lanes(N) as (j, _):
            result = plan.math.div(plan.load(row, j), total.results[0])
            plan.store(plan.add(arith.TruncFOp(result, element)), out, i, j)
    return plan.kernel


def scalar_points() -> KernelOp:
    """out[i, c] = 2 · x[i, c]: parallel points without lanes, one axis of constant size 1."""
    plan = Plan("scalar_points", ["b", "m"], [buffer(F32, [B, 1, M])] * 2)
    x, out = plan.buffers
    with plan.parallel(B, 1, M) as (i, o, c):
        plan.store(plan.math.mul(plan.load(x, i, o, c), plan.number(2.0)), out, i, o, c)
    return plan.kernel


def fixed_row(extent: int) -> KernelOp:
    """Layer statistics of rows of a constant extent: sum and max, then x − max."""
    n = Size.const(extent)
    plan = Plan(f"fixed_row_{extent}", ["b"], [buffer(F32, [B, n]), buffer(F32, [B, n]), buffer(F32, [B])])
    x, out, sums = plan.buffers
    with plan.parallel(B) as (i,):
        with plan.lanes(n, ["sum", "max"], [F32, F32]) as (j, op):
            value = plan.load(x, i, j)
            plan.yield_(value, value)
        plan.store(op.results[0], sums, i)
        with plan.lanes(n) as (j, _):
            plan.store(plan.math.sub(plan.load(x, i, j), op.results[1]), out, i, j)
    return plan.kernel


def uniform_in_empty_lanes() -> KernelOp:
    """out[i, j] = x[i, 0] / 2: what does not depend on j is read only where there is a j."""
    plan = Plan("uniform_in_empty_lanes", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, N])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        plan.store(plan.math.mul(plan.load(x, i, plan.index(0)), plan.number(0.5)), out, i, j)
    return plan.kernel


def convolution() -> KernelOp:
    """out[g, t, j] = gelu-like of Σ_r Σ_k x[g, t + r − 1, k] · w[r, k, j]: a guarded dot inside a loop inside lanes."""
    plan = Plan(
        "convolution", ["b", "m", "k", "n"], [buffer(F32, [B, M, K]), buffer(F32, [3, K, N]), buffer(F32, [B, M, N])]
    )
    x, w, out = plan.buffers
    with plan.parallel(B, M) as (g, t), plan.lanes(N) as (j, _):
        with plan.loop(3, ["sum"], [F32]) as (r, taps):
            at = plan.math.sub(plan.math.add(t, r), plan.index(1))
            inside = plan.math.compare("lt", at, plan.size(M), unsigned=True)
            with plan.dot(K) as (k, total):
                plan.yield_(plan.load(x, g, at, k, guard=inside), plan.load(w, r, k, j))
            plan.yield_(total.result)
        y = taps.results[0]
        plan.store(plan.math.mul(y, plan.math.function("tanh", y)), out, g, t, j)
    return plan.kernel


def nested_rows() -> KernelOp:
    """out[i, a, j] = x[i, a, j] + y[a] · z[i]: lanes that store inside a loop without results."""
    plan = Plan("nested_rows", ["b", "m", "n"],
                [buffer(F32, [B, M, N]), buffer(F32, [M]), buffer(F32, [B]), buffer(F32, [B, M, N])])  # fmt: skip
    x, y, z, out = plan.buffers
    with plan.parallel(B) as (i,), plan.loop(M) as (a, _), plan.lanes(N) as (j, _):
        scaled = plan.math.mul(plan.load(y, a), plan.load(z, i))
        plan.store(plan.math.add(plan.load(x, i, a, j), scaled), out, i, a, j)
    return plan.kernel


def reversed_rows() -> KernelOp:
    """out[i, j] = x[i, n − 1 − j]: a step of −1."""
    plan = Plan("reversed_rows", ["b", "n"], [buffer(F32, [B, N]), buffer(F32, [B, N])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        plan.store(plan.load(x, i, plan.math.sub(plan.size(N - 1), j)), out, i, j)
    return plan.kernel


def strided_input() -> KernelOp:
    """out[i, j] = x[i, j] with a stride of x known at run time only: m elements from lane to lane."""
    plan = Plan("strided_input", ["b", "n", "m"], [buffer(F32, [B, N], [M * N + 1, M]), buffer(F32, [B, N])])
    x, out = plan.buffers
    with plan.parallel(B) as (i,), plan.lanes(N) as (j, _):
        plan.store(plan.load(x, i, j), out, i, j)
    return plan.kernel


NARROW = {"f16": F16, "bf16": BF16}
ELEMENTS = {"i8": I8, "i16": IntegerType(16), "i32": i32, "i64": i64, "i1": I1, "f64": F64, **NARROW}
FIXED = (1, 3, 8, 16, 32, 48, 100)
SINGLE = (
    column_sum, transpose, scatter_columns, open_broadcast, embedding, take, pad, iota, divide_integers, compare, maximum,
    channel_sum, row_dot, scalar_points, uniform_in_empty_lanes, convolution, nested_rows, reversed_rows, strided_input,
    embedding_inside,
)  # fmt: skip


def kinds_of(name: str) -> list[str]:
    """The reductions that are tried for an element type."""
    return (
        ["sum", "max", "min", "prod"]
        if name in ("f16", "bf16", "f32", "f64")
        else ["sum", "max", "min", "umax", "umin", "prod", "and", "or"]
    )


def cast(name: str, source: Attribute, target: Attribute) -> KernelOp:
    """out[j] = x[j] as a narrower or wider float."""
    plan = Plan(name, ["n"], [buffer(source, [N]), buffer(target, [N])])
    x, out = plan.buffers
    with plan.lanes(N) as (j, _):
        value = plan.load(x, j)
        narrows = source == F32
        plan.store(plan.add((arith.TruncFOp if narrows else arith.ExtFOp)(value, target)), out, j)
    return plan.kernel
