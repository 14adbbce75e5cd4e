"""Claims about the machine code of tiles for named targets, none of which need be this machine."""

import re
from functools import cache

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
    """The basic blocks in which there are multiplications."""
    blocks = [block.splitlines() for block in re.split(r"\n\.L\w+:", text)]
    return [block for block in blocks if any("vpdpbusd" in line or "vpmaddwd" in line for line in block)]


@pytest.mark.parametrize("name", ["vnni", "avx512", "avx2"])
@pytest.mark.parametrize("format", FORMATS)
def test_no_vector_is_spilled_where_it_multiplies(format: str, name: str) -> None:
    for rows, text in functions(format, "int16", name).items():
        blocks = multiplying_blocks(text)
        assert blocks
        spills = [line for block in blocks for line in block if "%rsp" in line and re.search(r"%[xyz]mm", line)]
        assert not spills, f"{rows} rows: {spills}"


def test_vnni_multiplies_four_bytes_with_activations_from_memory() -> None:
    for rows, text in functions("q4_1", "int16", "vnni").items():
        assert len(re.findall(r"vpdpbusd\s.*\{1to16\}, %zmm", text)) == 16 * rows


def test_avx2_never_uses_the_product_that_saturates() -> None:
    for text in functions("q8_0", "int8", "avx2").values():
        assert "vpmaddwd" in text
        assert "vpmaddubsw" not in text
