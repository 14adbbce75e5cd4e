"""Tables of 16 numbers in vector registers, looked up in every lane by one permutation.

A function cut into 16 intervals needs a polynomial of half the degree in each, and no choice between formulas. AVX-512 permutes 16
floats in one instruction; AVX2 permutes each half of a table and chooses between them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Value

ENTRIES = 16


def has_lookup(b: Builder) -> bool:
    """Whether `lookup` may be used: targets with a permutation of floats by lane numbers."""
    return bool({"avx512f", "avx2"} & b.features)


def lookup(b: Builder, tables: Sequence[Sequence[float]], index: Value) -> list[Value]:
    """`table[index mod 16]` in every lane for each table of 16 f32 numbers; index: i32, a scalar or a vector of any width."""
    native = ENTRIES if "avx512f" in b.features else ENTRIES // 2
    width = b.width(index)
    lanes = b.broadcast(index, native) if width is None else index
    count = width or native
    parts = [_part(b, lanes, first, native) for first in range(0, count, native)]
    found: list[Value] = []
    for table in tables:
        values = [_permute(b, table, part) for part in parts]
        if width is None:
            found.append(b.extract(values[0], 0))
            continue
        joined = values[0]
        for number, value in enumerate(values[1:], start=1):
            joined = b.shuffle(joined, _resized(b, value, number * native), range((number + 1) * native))
        found.append(joined if count % native == 0 else b.shuffle(joined, joined, range(count)))
    return found


def _part(b: Builder, lanes: Value, first: int, native: int) -> Value:
    """`native` lanes from `first` on; those past the end repeat the others."""
    width = b.width(lanes)
    assert width is not None
    return lanes if width == native else b.shuffle(lanes, lanes, [(first + lane) % width for lane in range(native)])


def _resized(b: Builder, value: Value, width: int) -> Value:
    """A vector of `width` lanes that begins with all those of `value`, repeated."""
    own = b.width(value)
    assert own is not None
    return value if own == width else b.shuffle(value, value, [lane % own for lane in range(width)])


def _permute(b: Builder, table: Sequence[float], index: Value) -> Value:
    if b.width(index) == ENTRIES:
        return b.intrinsic("llvm.x86.avx512.permvar.sf.512", b.vector_type(b.f32, ENTRIES), [_vector(b, table), index])
    half = ENTRIES // 2
    type_ = b.vector_type(b.f32, half)
    low, high = (
        b.intrinsic("llvm.x86.avx2.permps", type_, [_vector(b, table[at : at + half]), index]) for at in (0, half)
    )
    # The bit that tells the halves apart, as a sign.
    return b.select(b.cmp("slt", b.shl(index, 28), 0), high, low)


def _vector(b: Builder, numbers: Sequence[float]) -> Value:
    bits = struct.unpack(f"{len(numbers)}i", struct.pack(f"{len(numbers)}f", *numbers))
    return b.bitcast(b.constant_vector(b.i32, bits), b.f32)
