"""ONNX's MatMul and Gemm, of floats, or of what codes stand for."""

from __future__ import annotations

from anyshape.dialects.dhlo import Add, Multiply
from anyshape.frontends.onnx.builder import GraphBuilder
from anyshape.frontends.onnx.integer_products import product_of_dequantised
from anyshape.frontends.onnx.products import matmul, product
from anyshape.frontends.onnx.refusals import Malformed
from anyshape.frontends.onnx.registry import lowers
from anyshape.frontends.onnx.values import Value


@lowers("MatMul")
def lower_matmul(b: GraphBuilder, lhs: Value, rhs: Value) -> Value:
    """lhs · rhs as numpy's matmul"""
    result = product_of_dequantised(b, lhs, rhs)
    return matmul(b, lhs, rhs) if result is None else result


@lowers("Gemm")
def lower_gemm(
    b: GraphBuilder,
    lhs: Value,
    rhs: Value,
    added: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """alpha·A·B + beta·C, where A and B may be given transposed, and C is broadcast"""
    if lhs.rank != 2 or rhs.rank != 2:
        raise Malformed(f"the factors must be matrices; they have {lhs.rank} and {rhs.rank} axes")
    result = None if transA else product_of_dequantised(b, lhs, rhs, is_turned=bool(transB))
    if result is None:
        result = product(b, lhs, rhs, (0 if transA else 1, 1 if transB else 0))
    result = _scaled(b, result, alpha)
    if added is None or beta == 0:
        return result
    return b.emit(Add, result, b.broadcast(_scaled(b, added, beta), result.sizes))


def _scaled(b: GraphBuilder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.binary(Multiply, x, factor)


__all__: list[str] = []
