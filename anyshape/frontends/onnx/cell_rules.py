"""The functions of ONNX's recurrent cells, from the attributes that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyshape.dialects.dhlo.cells import CELLS, Activation
from anyshape.frontends.onnx.refusals import Malformed, Unsupported

_FUNCTIONS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "Relu": ("relu", ()),
    "Softsign": ("softsign", ()),
    "Softplus": ("softplus", ()),
    "Affine": ("affine", (1.0, 0.0)),
    "ScaledTanh": ("scaled_tanh", (1.0, 1.0)),
    "HardSigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "LeakyRelu": ("leaky_relu", (0.01,)),
    "ThresholdedRelu": ("thresholded_relu", (1.0,)),
    "Elu": ("elu", (1.0,)),
}
"""Each function of ONNX's: the one of `dhlo.cells`, and the numbers that it has where none are given."""
_BY_LOWER_CASE = {name.lower(): name for name in _FUNCTIONS}


@dataclass(frozen=True)
class CellAttributes:
    """The attributes of a layer's cells.

    Attributes:
        cell: a key of `CELLS`.
        names, alphas, betas: of the functions of gates, one direction after another; functions without numbers take none.
        clip: what goes into functions is kept in [−clip, clip].
        couples: f = 1 − i.
    """

    cell: str
    names: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float | None = None
    couples: bool = False

    def functions(self, directions: int) -> list[str]:
        """Of each direction, as `recurrence` takes them, "" for the usual ones. Malformed, or Unsupported for an unknown name."""
        each = len(CELLS[self.cell].functions)
        if not self.names:
            return [""] * directions
        if len(self.names) != each * directions:
            raise Malformed(f"{len(self.names)} activations, expected {each} for each of {directions} directions")
        alphas, betas = list(self.alphas), list(self.betas)
        found = [str(_activation(name, alphas, betas)) for name in self.names]
        groups: list[Sequence[str]] = [found[at : at + each] for at in range(0, len(found), each)]
        return ["" if tuple(group) == CELLS[self.cell].functions else " ".join(group) for group in groups]

    def bound(self) -> float:
        """The clip as `recurrence` takes it. Malformed where it leaves nothing."""
        if self.clip is not None and not self.clip > 0:
            raise Malformed(f"clip is {self.clip}, expected a number above 0")
        return self.clip or 0.0


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    """The function of that name; numbers that it has are taken from the front of the lists, as long as these have any."""
    known = _BY_LOWER_CASE.get(name.lower())
    if known is None:
        raise Unsupported(f"the activation {name!r}; there are {', '.join(_FUNCTIONS)}")
    ours, usual = _FUNCTIONS[known]
    given = zip(usual, (alphas, betas), strict=False)
    return Activation(ours, tuple(numbers.pop(0) if numbers else number for number, numbers in given))


__all__ = ["CellAttributes"]
