"""Functions of `torch.special` that are one op on floats; integers are promoted as in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from anyshape.dialects.dhlo.base import DhloOp
from anyshape.dialects.dhlo.bessel import (
    AiryAi,
    BesselJ0,
    BesselJ1,
    BesselK0,
    BesselK0e,
    BesselK1,
    BesselK1e,
    BesselY0,
    BesselY1,
    SphericalBesselJ0,
)
from anyshape.dialects.dhlo.special import BesselI0, BesselI1, Zeta
from anyshape.frontends.torch.builder import GraphBuilder, Value, lowers
from anyshape.frontends.torch.elementwise import binary

UNARY: Mapping[str, type[DhloOp]] = {
    "airy_ai": AiryAi,
    "bessel_j0": BesselJ0,
    "bessel_j1": BesselJ1,
    "bessel_y0": BesselY0,
    "bessel_y1": BesselY1,
    "modified_bessel_i0": BesselI0,
    "modified_bessel_i1": BesselI1,
    "modified_bessel_k0": BesselK0,
    "modified_bessel_k1": BesselK1,
    "scaled_modified_bessel_k0": BesselK0e,
    "scaled_modified_bessel_k1": BesselK1e,
    "spherical_bessel_j0": SphericalBesselJ0,
}
"""The op of each function of `torch.special`."""


@lowers("aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar")
def lower_zeta(builder: GraphBuilder, s: Value, q: Value) -> SSAValue:
    return binary(builder, Zeta, s, q)


def _register(name: str, kind: type[DhloOp]) -> None:
    @lowers(f"aten.special_{name}.default")
    def lower_function(builder: GraphBuilder, x: SSAValue) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
        return builder.emit(kind, builder.convert(x, builder.result_dtype))


for _name, _kind in UNARY.items():
    _register(_name, _kind)
