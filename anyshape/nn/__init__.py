"""Models written down directly: a public API that builds `dhlo` graphs with symbolic sizes, without any framework.

    from anyshape import nn

    g = nn.Graph()
    b, s = g.sizes("b", "s")
    tokens = g.input("tokens", (b, s), "i64")
    x = nn.embedding(tokens, g.array(table))
    x = nn.rms_norm(x, g.array(norm), epsilon=1e-5)
    graph = g.finish(nn.linear(x, g.array(head)))

`anyshape.driver.graphs.compile_graph(graph)` makes a function of numpy arrays of it, for every b and s. Sizes are expressions over
symbols (`2 * s`, `p + s`); a tensor is a `Tensor`, with operators that broadcast as numpy's do. `g.array` takes the values of a weight
into the program, `g.weight` leaves them outside, to be bound when the program is loaded.
"""

from anyshape.nn.functions import (
    absolute,
    attention,
    concatenate,
    convert,
    cos,
    dequantize,
    embedding,
    gelu,
    greater,
    largest,
    layer_norm,
    linear,
    maximum,
    positions,
    rms_norm,
    round_even,
    sigmoid,
    silu,
    sin,
    size,
    slice_axis,
    softmax,
    split,
    tanh,
    update,
    where,
)
from anyshape.nn.graph import FinishedGraph, Graph
from anyshape.nn.rotary import RotaryTables, rotary_tables, rotate, rotate_halves
from anyshape.nn.tensor import Tensor

__all__ = [
    "FinishedGraph",
    "Graph",
    "RotaryTables",
    "Tensor",
    "absolute",
    "attention",
    "concatenate",
    "convert",
    "cos",
    "dequantize",
    "embedding",
    "gelu",
    "greater",
    "largest",
    "layer_norm",
    "linear",
    "maximum",
    "positions",
    "rms_norm",
    "rotary_tables",
    "rotate",
    "rotate_halves",
    "round_even",
    "sigmoid",
    "silu",
    "sin",
    "size",
    "slice_axis",
    "softmax",
    "split",
    "tanh",
    "update",
    "where",
]
