"""One step of a register tile: how factors are read and multiplied, for each element type and method.

| element | method | packed panel, one step | left-hand side | a step |
|---|---|---|---|---|
| f32, f64 | fma | 64 elements | as it lies | sum += a·b |
| f16 | fma | 64 elements | f32 | b is widened as it is loaded |
| bf16 | fma | 32 words: column j low, column j + lanes high, for every 2·lanes columns | f32 | b is word « 16 and word & 0xFFFF0000 |
| f32 · f16, f32 · bf16 | fma | as with two f16, two bf16 | as it lies | b is widened as above |
| f32 · i8 | fma | 64 elements | as it lies | b is widened as it is loaded |
| bf16 | dpbf16 | 64 words of two k | bf16 | dot of two; takes denormals for zero |
| i8 | vnni | 64 words of four k, each byte + 128 | i8, in front of a row −128·Σ a | unsigned · signed dot of four |
| i8 | sdot | 64 words of four k | i8 | signed dot of four |
| i8 | pairs | 64 words of two k | i16 | b widened to i16; dot of two, exact in i32 |
| i8 | widened | 64 elements | i32 | b widened to i32; sum += a·b |

A right-hand side of 16 or 8 bits with f32 on the left is widened in registers, which is exact: sums are those of the same values in f32.
Dots of two bf16 do twice the work of an f32 FMA; like PyTorch's products on such machines they flush denormals.

VNNI multiplies unsigned bytes by signed ones: Σ a·b = Σ a·(b + 128) − 128·Σ a, and the last term is where a row's sums start. Integer sums
wrap, so this is exact. (`vpmaddubsw`, two products in 16 bits, saturates and is not used.)
"""

from __future__ import annotations

from anyshape.codegen.builder import Builder
from anyshape.codegen.mlir import Type, Value, llvm
from anyshape.codegen.tiles.shape import TileShape
from anyshape.support.errors import CodegenError

_UPPER = 0xFFFF0000
OFFSET = 0x80
"""What is added to bytes of a panel that `vnni` takes as unsigned."""


def load_rhs(b: Builder, shape: TileShape, step: Value, vectors: int) -> list[Value]:
    """The vectors of the right-hand side for one step, in the form that `multiply` takes, from the packed row at `step`."""
    lanes = shape.lanes
    if shape.is_interleaved:
        words = [b.load(step, b.i32, pair * lanes, width=lanes, alignment=2) for pair in range(vectors // 2)]
        return [
            b.bitcast(half, b.f32) for word in words for half in (b.shl(word, 16), b.and_(word, _UPPER))
        ]  # fmt: skip
    width = lanes * shape.group
    element = b.type(shape.rhs_memory)
    loaded = [b.load(step, element, vector * width, width=width) for vector in range(vectors)]
    match shape.method:
        case "pairs":
            return [b.convert(vector, b.i16) for vector in loaded]
        case "widened":
            return [b.convert(vector, b.i32) for vector in loaded]
        case "fma":
            return [b.convert(vector, b.type(shape.sum_element)) for vector in loaded]
        case _:
            return loaded


def load_lhs(b: Builder, shape: TileShape, row: Value, step: Value) -> Value:
    """Step number `step` of a row of the left-hand side, repeated all along a vector."""
    if shape.group == 1:
        return b.broadcast(b.load(row, b.type(shape.lhs_element), step), shape.lanes)
    word = b.broadcast(b.load(row, b.i32, step, alignment=shape.lhs_bytes), shape.lanes)
    lhs = b.type(shape.lhs_element)
    return vector_bitcast(b, word, lhs, shape.lanes * shape.group)


def multiply(b: Builder, shape: TileShape, lhs: Value, rhs: Value, sum_: Value) -> Value:
    """sum + Σ of the step's products, lane by lane."""
    bits = shape.lanes * 32
    match shape.method:
        case "fma":
            return b.fma(lhs, rhs, sum_)
        case "dpbf16":
            return b.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{bits}", sum_.type, [sum_, lhs, rhs])
        case "widened":
            return b.add(sum_, b.mul(lhs, rhs))
        case "pairs":
            name = {256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}.get(bits)
            if name is None:
                raise CodegenError("no dot of pairs", where="register tile", got=f"{bits} bits", expected="256 or 512")
            return b.add(sum_, b.intrinsic(name, sum_.type, [lhs, rhs]))
        case "vnni":
            return b.intrinsic(f"llvm.x86.avx512.vpdpbusd.{bits}", sum_.type, [sum_, rhs, lhs])
        case "sdot":
            return b.intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", sum_.type, [sum_, lhs, rhs])


def vector_bitcast(b: Builder, value: Value, element: Type, lanes: int) -> Value:
    """The same bits as a vector of another number of lanes."""
    return llvm.bitcast(b.vector_type(element, lanes), value)


def load_as_lhs(b: Builder, shape: TileShape, pointer: Value, index: Value, width: int | None) -> Value:
    """Elements of a left-hand side as they lie, in the type in which tiles read them."""
    lhs = b.type(shape.lhs_element)
    if shape.lhs_element == shape.lhs_memory or shape.lhs_memory != "bf16":
        return b.convert(b.load(pointer, b.type(shape.lhs_memory), index, width=width), lhs)
    bits = b.load(pointer, b.i16, index, width=width)
    return b.bitcast(b.shl(b.convert(bits, b.i32, signed=False), 16), lhs)
