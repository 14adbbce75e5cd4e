"""Host programs as text: print, parse, print."""

from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.parser import Parser

from anyshape.dialects.context import new_context
from anyshape.dialects.host import CheckOp, ConstantOp, ProgramOp, ReturnOp
from anyshape.dialects.host.verify import verify_program
from anyshape.dialects.tile import buffer


def test_round_trip(sample: Any) -> None:
    text = str(sample.program)
    parsed = Parser(new_context(), text).parse_op()
    assert isinstance(parsed, ProgramOp)
    assert str(parsed) == text
    assert parsed.is_structurally_equivalent(sample.program)
    verify_program(parsed, sample.kernels)


def test_a_check_is_no_size() -> None:
    program = ProgramOp("checked", [], ["info"])
    number = ConstantOp(0, buffer(i64, []))
    program.body.block.add_ops(
        [number, CheckOp(number.result, "singular", "info = %lld", [number.result]), ReturnOp.build()]
    )
    text = str(program)
    assert 'host.check %0 is zero else "singular" "info = %lld"(%0) : !tile.buffer<i64' in text
    parsed = Parser(new_context(), text).parse_op()
    assert str(parsed) == text
    assert parsed.is_structurally_equivalent(program)
    verify_program(program, {})


def test_text_says_what_happens(sample: Any) -> None:
    text = str(sample.program)
    for line in (
        'host.program "sample" names ["x", "scale"] constants ["w"] sites ["line 1: %lld of %lld"]',
        'host.bind "n" = %0 axis 0',
        "host.guard_axis %0 axis 1 : i64 is <[4]> else \"argument 'x' axis 1: got %lld, expected %lld\"",
        'host.guard <"n <= 512"> else',
        "host.view %4 from <[0]> :",
        "host.launch @shift(%5, %3, %6) sizes <[n, n floordiv 2]> extent <[4*n]> grain <[64]> scratch <[16*n]> outputs",
        "host.return",
    ):
        assert line in text
