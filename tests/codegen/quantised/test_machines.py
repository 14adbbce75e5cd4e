"""Claims about the machine code of tiles for named targets, none of which need be this machine."""

import re
from functools import cache
from typing import get_args

import pytest

from anyshape.codegen.llvm import emit_assembly
from anyshape.codegen.quantised import Activations
from anyshape.codegen.quantised.microkernel import tile_name
from anyshape.dialects.block_formats import FORMATS
from tests.codegen.quantised.blocks import MACHINES, code_of


@cache
def functions(format: str, activations: Activations, name: str) -> dict[int, str]:
    """The assembly of each tile, by its rows."""
    shape, code = code_of(FORMATS[format], activations, name)
    text = emit_assembly(code, MACHINES[name][1])
    found: dict[int, str] = {}
    for rows in range(1, shape.max_rows + 1):
        body = text[text.index(f"\n{tile_name(shape, rows)}:") :]
        found[rows] = body[: body.index(".Lfunc_end")]
    return found


def multiplying_blocks(text: str) -> list[list[str]]:
    """The basic blocks in which weights are multiplied; where sums have 16 bits, `vpmaddwd` only widens those of 32 columns."""
    multiply = "vpmaddubsw" if "vpmaddubsw" in text else "vpdpbusd|vpmaddwd"
    blocks = [block.splitlines() for block in re.split(r"\n\.L\w+:", text)]
    return [block for block in blocks if any(re.search(multiply, line) for line in block)]


@pytest.mark.parametrize("name", ["vnni", "avx512", "avx2"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("activations", get_args(Activations))
def test_no_vector_is_spilled_where_it_multiplies(activations: Activations, format: str, name: str) -> None:
    for rows, text in functions(format, activations, name).items():
        blocks = multiplying_blocks(text)
        assert blocks
        spills = [line for block in blocks for line in block if "%rsp" in line and re.search(r"%[xyz]mm", line)]
        assert not spills, f"{rows} rows: {spills}"


def test_vnni_multiplies_four_bytes_with_activations_from_memory() -> None:
    for rows, text in functions("q4_1", "int16", "vnni").items():
        assert len(re.findall(r"vpdpbusd\s.*\{1to16\}, %zmm", text)) == 16 * rows


def test_avx2_uses_the_product_that_saturates_for_codes_of_4_bits_only() -> None:
    for format, description in FORMATS.items():
        for text in functions(format, "int8", "avx2").values():
            assert "vpmaddwd" in text
            assert ("vpmaddubsw" in text) == (description.code_bits == 4)


def test_avx2_multiplies_32_products_of_4_bits_with_two_instructions_and_a_broadcast() -> None:
    """Two vectors of four columns in the innermost loop, a product, an addition and a broadcast of each for every row."""
    for activations, planes in (("int8", 1), ("int16", 2)):
        for rows, text in functions("q4_1", activations, "avx2").items():
            for block in multiplying_blocks(text):
                products, sums, fetched = (
                    sum(name in line for line in block) for name in ("vpmaddubsw", "vpaddw", "vpbroadcastd")
                )
                # Few rows meet both vectors of a panel's row at once.
                parts = 2 if rows * planes <= 2 else 1
                assert products == sums == 2 * parts * rows * planes
                assert fetched == 2 * rows * planes
