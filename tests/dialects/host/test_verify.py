"""Every invariant of host programs: a program that breaks it is refused, and the error shows where."""

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.arith import ConstantOp as ArithConstantOp
from xdsl.dialects.builtin import ArrayAttr, StringAttr, f32, f64, i64
from xdsl.ir import Operation

from anyshape.dialects.host import (
    AllocateOp,
    BindOp,
    CheckOp,
    ConstantOp,
    GuardAxisOp,
    GuardOp,
    LaunchOp,
    OutputOp,
    ReadOp,
    ReturnOp,
    ViewOp,
)
from anyshape.dialects.host.verify import verify_program
from anyshape.dialects.tile import KernelOp, buffer
from anyshape.support.errors import VerifyError
from anyshape.symbolic import Size

N, K = Size.symbol("n"), Size.symbol("k")
Break = Callable[[Any], None]


def before(name: str, make: Callable[[Any], Operation]) -> Break:
    """A fault that is one op more, in front of op `name`."""

    def apply(sample: Any) -> None:
        op = make(sample)
        sample.program.body.block.insert_op_before(op, sample.ops[name])

    return apply


def without(name: str) -> Break:
    """A fault that is an op less."""

    def apply(sample: Any) -> None:
        sample.ops[name].detach()

    return apply


def moved(name: str, front: str) -> Break:
    def apply(sample: Any) -> None:
        sample.ops[name].detach()
        sample.program.body.block.insert_op_before(sample.ops[name], sample.ops[front])

    return apply


def with_kernel(name: str, *elements: Any, symbols: int) -> Break:
    def apply(sample: Any) -> None:
        names = [f"s{i}" for i in range(symbols)]
        sample.kernels[name] = KernelOp(name, names, [buffer(element, []) for element in elements])

    return apply


def argument(sample: Any, index: int) -> Any:
    return sample.program.body.block.args[index]


def launch(sample: Any, *buffers: str, sizes: Any = (N,), extent: Any = N, outputs: int = 1) -> LaunchOp:
    values = [sample.ops[name].result for name in buffers]
    return LaunchOp("double", values, sizes, extent=extent, grain=1, scratch=0, outputs=outputs)


def one_number(sample: Any, *, written: bool = True) -> Any:
    """A buffer of one i64: a constant, or memory that no launch writes."""
    op = ConstantOp(0, buffer(i64, [])) if written else AllocateOp(buffer(i64, []))
    sample.program.body.block.insert_op_before(op, sample.ops["view"])
    return op.result


def check(sample: Any, *, written: bool = True, error: str = "guard", message: str = "%lld", shown: int = 1) -> CheckOp:
    number = one_number(sample, written=written)
    return CheckOp(number, error, message, [number] * shown)


def with_names(sample: Any) -> None:
    sample.program.names = ArrayAttr([StringAttr("x")])


FAULTS: list[tuple[str, Break, str]] = [
    ("names", with_names, "one name for each argument"),
    ("foreign op", before("dense", lambda s: ArithConstantOp.from_int_and_width(1, i64)), "cannot hold this op"),
    ("no return", without("return"), "must end with host.return"),
    ("early return", before("dense", lambda s: ReturnOp.build()), "must be the last operation"),
    ("use before definition", moved("double", "dense"), "used before its definition"),
    ("bound twice", before("dense", lambda s: BindOp("n", argument(s, 1), 0)), "bound twice"),
    ("axis of bind", before("dense", lambda s: BindOp("k", argument(s, 1), 1)), "index is out of range"),
    ("axis of guard", before("dense", lambda s: GuardAxisOp(argument(s, 1), -1, 4, "")), "index is out of range"),
    ("unbound in guard", moved("guard", "bind"), "'n' uses unbound symbols"),
    ("unbound in shown", before("dense", lambda s: GuardOp(N.le(3), "%lld", [K])), "'k' uses unbound"),
    ("unbound axis", before("dense", lambda s: GuardAxisOp(argument(s, 1), 0, K, "")), "'k' uses unbound"),
    ("places", before("dense", lambda s: GuardOp(N.le(3), "%lld %lld", [N])), "more places than values"),
    ("axis places", before("dense", lambda s: GuardAxisOp(argument(s, 1), 0, N, "%lld" * 3)), "more places"),
    ("shown", before("dense", lambda s: GuardOp(N.le(3), "", [N] * 5)), "too many values"),
    ("unchecked axis", without("guard axis"), "axes whose size nothing checks"),
    ("constant index", before("view", lambda s: ConstantOp(1, buffer(f32, []))), "index is out of range"),
    ("unbound buffer", before("view", lambda s: AllocateOp(buffer(f32, [K]))), "'k' uses unbound"),
    ("strided buffer", before("view", lambda s: AllocateOp(buffer(f32, [N, 2], [1, N]))), "row-major"),
    ("output twice", before("shift", lambda s: OutputOp(0, buffer(f32, [N]))), "allocated twice"),
    ("output gap", before("shift", lambda s: OutputOp(2, buffer(f32, [N]))), "outputs are missing"),
    ("output unwritten", before("shift", lambda s: OutputOp(1, buffer(f32, [N]))), "output 1 is never written"),
    ("view type", before("shift", lambda s: ViewOp(s.ops["view"].result, buffer(f64, [4 * N]))), "changes the type"),
    ("view count", before("shift", lambda s: ViewOp(s.ops["constant"].result, buffer(f32, [5]))), "number of elements"),
    ("kernel", lambda s: s.kernels.pop("shift") and None, "no such kernel"),
    ("kernel's buffers", with_kernel("double", f32, f32, f32, symbols=1), "few or many buffers"),
    ("kernel's sizes", with_kernel("double", f32, f32, symbols=2), "few or many sizes"),
    ("kernel's types", with_kernel("double", f32, f64, symbols=1), "another element type"),
    ("outputs", before("view", lambda s: launch(s, "dense", "allocate", outputs=3)), "few or many outputs"),
    ("launch unbound", before("view", lambda s: launch(s, "dense", "allocate", extent=K)), "'k' uses unbound"),
    ("read unwritten", before("double", lambda s: launch(s, "allocate", "allocate")), "read before it is written"),
    ("size of another type", before("view", lambda s: ReadOp("k", s.ops["constant"].result)), "buffer of one i64"),
    ("size bound twice", before("view", lambda s: ReadOp("n", one_number(s))), "bound twice"),
    (
        "size unwritten",
        before("view", lambda s: ReadOp("k", one_number(s, written=False))),
        "read before it is written",
    ),
    (
        "check of another type",
        before("view", lambda s: CheckOp(s.ops["constant"].result, "guard", "", [])),
        "of one i64",
    ),
    ("check of what is not there", before("view", lambda s: check(s, written=False)), "read before it is written"),
    ("kind of error", before("view", lambda s: check(s, error="odd")), "no such kind of error"),
    ("check places", before("view", lambda s: check(s, message="%lld %lld")), "more places than values"),
    ("check shown", before("view", lambda s: check(s, shown=5)), "too many values"),
    ("writes input", before("view", lambda s: launch(s, "allocate", "dense")), "not the program's"),
    ("writes constant", before("view", lambda s: launch(s, "allocate", "constant")), "not the program's"),
    ("writes what it reads", before("shift", lambda s: launch(s, "view", "allocate")), "also uses"),
    ("writes twice", before("shift", lambda s: launch(s, "allocate", "view", outputs=2)), "also uses"),
]


def test_the_sample_is_valid(sample: Any) -> None:
    verify_program(sample.program, sample.kernels)


@pytest.mark.parametrize(("apply", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_faults_are_found(sample: Any, apply: Break, message: str) -> None:
    apply(sample)
    with pytest.raises(VerifyError, match=message):
        verify_program(sample.program, sample.kernels)


def test_the_error_shows_the_ops_around(sample: Any) -> None:
    before("view", lambda s: launch(s, "allocate", "constant"))(sample)
    with pytest.raises(VerifyError) as caught:
        verify_program(sample.program, sample.kernels)
    where = str(caught.value.where).splitlines()
    assert where[0] == "@sample, op 8"
    assert [line[:3] for line in where[1:]] == ["   ", "   ", "-> ", "   ", "   "]
    assert where[3].startswith("-> host.launch @double(%4, %3)")  # names are those of the whole program
