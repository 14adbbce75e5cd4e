"""Symbols of compiled objects that whoever loads them looks up."""

DESCRIPTOR = "anyshape_program"
"""The descriptor of a program, a `ral_program`."""


def pack_rhs_name(element: str) -> str:
    """The function that packs a panel of a right-hand side: `tiles.pack.emit_pack_rhs`."""
    return f"as_pack_rhs_{element}"


def pack_blocks_name(format: str) -> str:
    """The function that packs block-quantised weights: `quantised.pack.emit_pack_blocks`."""
    return f"as_pack_blocks_{format}"
