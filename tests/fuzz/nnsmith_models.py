"""Random models by nnsmith, whose generator is not ours: `python -m tests.fuzz.nnsmith_models --first 0 --count 100`.

Needs the extra `nnsmith`. A model has concrete sizes; it is compiled with every axis dynamic, as far as it allows, and compared with
eager in f64 at its own sizes, or with eager as it is where a model with casts cannot run in f64. What eager in f32 cannot compute near
to f64 itself is passed over.
"""

# nnsmith has no type stubs and is not among the packages of the type checker.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from nnsmith.graph_gen import model_gen
from nnsmith.materialize import Model
from nnsmith.narrow_spec import auto_opset
from torch import Tensor, nn

import anyshape
from anyshape.support.errors import ExportError, UnsupportedOps
from tests.fuzz.checking import OPTIONS, differences

NODES = 8
MOST_ELEMENTS = 1 << 14


class ByName(nn.Module):
    """A model of nnsmith's, which takes its inputs by name, as one that takes them in order."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True)))


def drawn(seed: int, opset: Any, kind: Any) -> tuple[ByName, tuple[Tensor, ...]]:
    """A model and inputs for it."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    generated = model_gen(opset=opset, seed=seed, max_nodes=NODES, max_elem_per_tensor=MOST_ELEMENTS, timeout_ms=10_000)
    network = kind.from_gir(generated.make_concrete()).torch_model.eval()
    network.debug_numeric = lambda _: None  # looks for infinities in inputs, which no graph can hold
    inputs: Mapping[str, Tensor] = network.get_random_inps()
    return ByName(network, list(inputs)), tuple(inputs.values())


def check(model: ByName, inputs: tuple[Tensor, ...]) -> str | None:
    """How the compiled model differs from eager, `refused: …` where it is not compiled, None where all is well."""
    try:
        program = anyshape.compile(model, inputs, options=OPTIONS)
        got = program(*inputs)
    except (UnsupportedOps, ExportError) as error:
        return "refused: " + " ".join(str(error.where or error.got).split())[:200]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    with torch.no_grad():
        narrow = model(*inputs)
        try:
            exact = model.double()(*(each.double() if each.is_floating_point() else each for each in inputs))
        except RuntimeError:  # a cast within the model leaves f32 beside weights in f64
            return next(differences(got, narrow), None)
    if list(differences(narrow, exact)):
        return None
    return next(differences(got, exact), None)


def main() -> int:
    """Run the seeds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    options = parser.parse_args()
    kind: Any = Model.init("torch", backend_target="cpu")
    kind.add_seed_setter()
    opset = auto_opset(kind)
    failed, refused = list[int](), 0
    for seed in range(options.first, options.first + options.count):
        model, inputs = drawn(seed, opset, kind)
        message = check(model, inputs)
        if message is not None and message.startswith("refused"):
            refused += 1
        elif message is not None:
            failed.append(seed)
            print(f"--- seed {seed}: {message}\n{model.model}", flush=True)
    print(f"{options.count} models, {refused} refused, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
