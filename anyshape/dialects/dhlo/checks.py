"""What the data of a call have to be: numbers of the program that must be 0, or the call is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.irdl import traits_def
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from anyshape.dialects.dhlo.base import REQUIRED, Array, DhloOp, Environment, Sample
from anyshape.dialects.dtypes import I64
from anyshape.dialects.locations import location_text
from anyshape.dialects.messages import SHOWN, filled, places_in, verbatim
from anyshape.dialects.sizes import Tensor, tensor
from anyshape.support.errors import DATA_ERRORS, error_from_text


class Check(DhloOp, op="check"):
    """result = x, an i64 scalar that must be 0: the call fails with an error of the kind `error` (`DATA_ERRORS`) where it is not.

    `message`, `got`, `expected` and `remedy` are what the error says, with places `%lld` for the operands behind x, i64 scalars
    too, in order. The location of the op is where it went wrong.
    """

    DEFAULTS: ClassVar = {"error": REQUIRED, "message": REQUIRED, "got": "", "expected": "", "remedy": ""}
    PLANNED = True
    traits = traits_def(MemoryWriteEffect())  # it stays without users: the call depends on it
    SAMPLES = (
        Sample(((),), {"error": "guard", "message": "100%% of the data are wrong"}, (I64,), values={0: "zero"}),
        Sample(
            ((), (), ()),
            {"error": "singular", "message": "(Batch element %lld): the matrix is singular", "got": "info = %lld"},
            (I64,),
            values={0: "zero", 1: "small", 2: "small"},
        ),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: Mapping[str, Any]) -> Sequence[Tensor]:
        scalar = tensor(I64, ())
        if not operands or any(operand != scalar for operand in operands) or len(operands) > 1 + SHOWN:
            raise VerifyException(f"{cls.name} takes an i64 scalar, and up to {SHOWN} more to show")
        if attributes["error"] not in DATA_ERRORS:
            raise VerifyException(
                f"{cls.name}: {attributes['error']!r} is no kind of error; there are {', '.join(DATA_ERRORS)}"
            )
        wanted = places_in(" ".join(attributes[key] for key in ("message", "got", "expected", "remedy")))
        if wanted != len(operands) - 1:
            raise VerifyException(f"{cls.name} shows {len(operands) - 1} numbers in {wanted} places")
        return [scalar]

    @property
    def text(self) -> str:
        """All that the error says, as a message with places."""
        fields = {key: self.attribute(key) or None for key in ("got", "expected", "remedy")}
        where = verbatim(location_text(self.location)) or None
        return str(DATA_ERRORS[self.attribute("error")](self.attribute("message"), where=where, **fields))

    def reference(self, *operands: Array, env: Environment) -> Sequence[Array]:
        value, *shown = map(int, operands)
        if value != 0:
            raise error_from_text(DATA_ERRORS[self.attribute("error")], filled(self.text, shown))
        return [operands[0]]


__all__ = ["Check"]
