"""Ops of the domain `com.microsoft`, one node each at several sizes, beside ONNX Runtime, whose ops they are."""

from __future__ import annotations

from collections.abc import Iterator

from tests.onnx_files.contrib.attention import fused_attention, grouped, many_heads, rotary
from tests.onnx_files.contrib.cases import ContribCase, NotImplementedByPeer, compared
from tests.onnx_files.contrib.elements import activations, embeddings, norms
from tests.onnx_files.contrib.products import few_bits, products
from tests.onnx_files.contrib.quantised import quantised_attention, quantised_elements, quantised_products


def all_cases() -> Iterator[ContribCase]:
    """Every case, op by op."""
    for family in (
        activations, norms, embeddings, products, few_bits, fused_attention, many_heads, grouped, rotary, quantised_products,
        quantised_attention, quantised_elements,
    ):  # fmt: skip
        yield from family()


__all__ = ["ContribCase", "NotImplementedByPeer", "all_cases", "compared"]
