"""Quantised models: blocks against the package `gguf`, results against the decoded weights in f64, reports against numpy."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from transformers.pytorch_utils import Conv1D

import anyshape
from anyshape.dialects.block_formats import FORMATS
from anyshape.frontends.torch.dequantising import dequantize
from anyshape.frontends.torch.dynamo.record import read_graph, record_graph
from anyshape.frontends.torch.quantised import QuantisedEmbedding, QuantisedLinear
from anyshape.frontends.torch.quantised.encode import WRITABLE, encode
from anyshape.support.errors import ArgumentError, DtypeError
from anyshape.support.options import Options

LIMITS = {"int16": 1e-7, "int8": 1e-3}
"""Normalised mean square error of a few layers, by what activations are rounded to."""


def decoded(blocks: torch.Tensor, format: str) -> np.ndarray[Any, Any]:
    return gguf.quants.dequantize(blocks.numpy(), gguf.GGMLQuantizationType[format.upper()]).astype(np.float64)


def nmse(got: torch.Tensor, expected: torch.Tensor) -> float:
    assert got.shape == expected.shape
    if not expected.numel():
        return 0.0
    return float((got.double() - expected).square().sum() / expected.square().sum())


def distance(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def claimed(text: str) -> list[str]:
    """The formats of the quantised products in a text of kernels."""
    words = text.replace("\n", " ").split()
    return [words[at + 1].strip('"') for at, word in enumerate(words) if word == "blocks" and words[at + 1][0] == '"']


class Perceptron(nn.Module):
    """Three layers; the rows of the last are no whole blocks."""

    def __init__(self, inner: int = 33) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 96), nn.Linear(96, inner, bias=False), nn.Linear(inner, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(nn.functional.gelu(self.first(x)))))


class Tied(nn.Module):
    """A table that is also the last factor, and one that is not."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(70, 64, **options), nn.Embedding(9, 64)
        self.head = nn.Linear(64, 70, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.tokens(x) + self.places(torch.arange(x.shape[1])))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# -- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITABLE)
def test_blocks_are_no_worse_than_those_of_gguf(name: str) -> None:
    rng = np.random.default_rng(0)
    for rows in (rng.standard_normal((40, 96)), rng.standard_t(3, (40, 96)), rng.uniform(0, 1, (40, 96))):
        matrix = (0.02 * rows).astype(np.float32)
        blocks = encode(matrix, FORMATS[name])
        other = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType[name.upper()])
        ours, theirs = (distance(decoded(torch.from_numpy(each), name), matrix) for each in (blocks, other))
        assert ours < theirs


@pytest.mark.parametrize("name", ["q4_0", "q4_1"])
def test_the_search_comes_near_the_best_of_all_scales(name: str) -> None:
    matrix = np.random.default_rng(1).standard_normal((12, 32)).astype(np.float32)
    got = np.square(decoded(torch.from_numpy(encode(matrix, FORMATS[name])), name) - matrix).sum(1)
    low, top = (-8, 7) if name == "q4_0" else (0, 15)
    best = np.full(len(matrix), np.inf)
    for scale in np.linspace(0.12, 0.45, 250):
        for sign in (-1, 1) if name == "q4_0" else (1,):
            for minimum in np.linspace(-3, 0, 120) if name == "q4_1" else (0.0,):
                codes = np.clip(np.rint((matrix - minimum) / (sign * scale)), low, top)
                best = np.minimum(best, np.square(sign * scale * codes + minimum - matrix).sum(1))
    assert (got <= 1.35 * best).all()
    assert got.sum() <= 1.15 * best.sum()


@pytest.mark.parametrize("name", WRITABLE)
def test_blocks_of_zeros_of_one_number_and_none(name: str) -> None:
    format = FORMATS[name]
    assert not format.decode(encode(np.zeros((3, 64)), format)).any()
    np.testing.assert_allclose(format.decode(encode(np.full((2, 32), -0.75), format)), -0.75, rtol=1e-3)
    assert encode(np.zeros((0, 64)), format).shape == (0, format.row_bytes(64))
    assert encode(np.zeros((3, 0)), format).shape == (3, 0)
    for bad, message in ((np.nan, "not finite"), (np.inf, "not finite"), (1e30, "too large")):
        with pytest.raises(ArgumentError, match=message):
            encode(np.full((1, 32), bad), format)
    with pytest.raises(ArgumentError, match="whole number of blocks"):
        encode(np.zeros((2, 33)), format)
    with pytest.raises(ArgumentError, match="not encoded as q4_k"):
        encode(np.zeros((2, 256)), FORMATS["q4_k"])


def test_the_op_is_one_that_pytorch_can_capture() -> None:
    rows = torch.from_numpy(encode(np.random.default_rng(2).standard_normal((5, 64)), FORMATS["q5_1"]))
    torch.library.opcheck(dequantize, (rows, "q5_1"))
    np.testing.assert_array_equal(dequantize(rows, "q5_1").double().numpy(), decoded(rows, "q5_1"))
    with pytest.raises(ArgumentError, match="unknown block format"):
        dequantize(rows, "q9")


def test_a_graph_with_the_op_can_be_replayed() -> None:
    graph = make_fx(lambda rows: dequantize(rows, "q8_0") + 1, tracing_mode="symbolic")(torch.zeros(3, 34).byte())
    record = record_graph(graph)
    assert "anyshape.dequantize.default" in str(record)
    assert record_graph(read_graph(record)) == record


# -- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["int8", "int4", "q4_0"])
def test_a_perceptron_compiled(weights: str) -> None:
    model = Perceptron().eval()
    quantised = anyshape.quantize(model, weights)
    format = {"int8": "q8_0", "int4": "q4_1"}.get(weights, weights)
    exact = copy.deepcopy(model).double()
    for name in ("first", "second"):
        blocks = quantised.get_submodule(name).blocks
        exact.get_submodule(name).weight = nn.Parameter(torch.from_numpy(decoded(blocks, format)))
    for activations in ("int16", "int8"):
        program = anyshape.compile(
            quantised, (torch.zeros(2, 64),), options=Options(cache=None, activations=activations)
        )
        assert program.built.stages is not None
        texts = [str(kernel) for kernel in program.built.stages.kernels.values()]
        assert claimed("".join(texts)) == [format, format]
        assert sum(f'activations "{activations}"' in text for text in texts) == 2
        for rows in (0, 1, 3, 40):
            x = torch.randn(rows, 64)
            with torch.no_grad():
                assert nmse(program(x), exact(x.double())) <= LIMITS[activations]
                assert nmse(quantised(x), exact(x.double())) <= 1e-12


def test_a_model_of_half_precision_has_the_same_products() -> None:
    model = Perceptron().eval().to(torch.bfloat16)
    quantised = anyshape.quantize(model, "int8")
    program = anyshape.compile(quantised, (torch.zeros(2, 64).bfloat16(),), options=Options(cache=None))
    assert program.built.stages is not None
    assert claimed("".join(map(str, program.built.stages.kernels.values()))) == ["q8_0", "q8_0"]
    x = torch.randn(5, 64).bfloat16()
    with torch.no_grad():
        assert program(x).dtype == torch.bfloat16
        assert nmse(program(x), copy.deepcopy(quantised).double()(x.double())) <= 1e-3


def test_inside_torch_compile_weights_stay_the_users(tmp_path: Path) -> None:
    quantised = anyshape.quantize(Perceptron().eval(), "int4")
    options = {"strict": True, "cache": None, "dump": tmp_path}
    torch.compiler.reset()
    compiled = torch.compile(quantised, backend="anyshape", options=options, dynamic=True)
    x = torch.randn(6, 64)
    exact = copy.deepcopy(quantised).double()
    with torch.no_grad():
        assert nmse(compiled(x), exact(x.double())) <= LIMITS["int16"]
        torch.manual_seed(7)
        other = anyshape.quantize(Perceptron().eval(), "int4")
        quantised.load_state_dict(other.state_dict())
        assert nmse(compiled(x), other.double()(x.double())) <= LIMITS["int16"]
    texts = [path.read_text() for path in tmp_path.rglob("*kernels*")]
    assert sorted(claimed("".join(texts))) == ["q4_1", "q4_1"]


def test_a_language_model_with_a_tied_table() -> None:
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    quantised = anyshape.quantize(model, "int4", layers={"lm_head": "int8"}, example=(torch.arange(6)[None],))
    assert type(quantised) is type(model)
    head, table = quantised.lm_head, quantised.model.embed_tokens
    assert isinstance(table, QuantisedEmbedding)
    assert head.blocks is table.blocks
    assert {layer.name: layer.format for layer in quantised.report.quantised} == {
        name: "q8_0" if name in ("lm_head", "model.embed_tokens") else "q4_1"
        for name, module in model.named_modules() if isinstance(module, nn.Linear | nn.Embedding)
    }  # fmt: skip
    assert 0.01 < quantised.report.output_error.exact < 0.3
    program = anyshape.compile(quantised, (torch.ones(2, 5, dtype=torch.int64),), options=Options(cache=None))
    exact = copy.deepcopy(quantised).double()
    for batch, length in ((1, 1), (3, 9)):
        tokens = torch.randint(0, 99, (batch, length))
        with torch.no_grad():
            assert nmse(program(tokens).logits, exact(tokens).logits) <= 1e-6
    assert program.built.stages is not None
    formats = claimed("".join(map(str, program.built.stages.kernels.values())))
    assert set(formats) == {"q4_1", "q8_0"}


def test_a_turned_weight() -> None:
    layer = Conv1D(40, 64)
    quantised = anyshape.quantize(nn.Sequential(layer), "int8")
    assert quantised[0].blocks.shape == (40, 68)
    with torch.no_grad():
        x = torch.randn(2, 3, 64)
        torch.testing.assert_close(quantised(x), layer(x), rtol=0.02, atol=0.02)
        expected = x.double().numpy() @ decoded(quantised[0].blocks, "q8_0").T + layer.bias.double().numpy()
        np.testing.assert_allclose(quantised(x), expected, rtol=1e-4, atol=1e-5)


# -- the copy --------------------------------------------------------------------------------------------------------


def test_the_original_stays_and_the_rest_is_shared() -> None:
    model = Perceptron().eval()
    model.friends = [model.first]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    quantised = anyshape.quantize(model, example=(torch.ones(1, 64),))
    assert type(model.first) is nn.Linear
    assert not model.first._forward_hooks
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert quantised.last.weight is model.last.weight
    assert quantised.first.bias is model.first.bias
    assert quantised.friends[0] is quantised.first
    assert not hasattr(model, "report")


def test_state_copies_and_types() -> None:
    quantised = anyshape.quantize(Perceptron().eval(), "int4")
    other = anyshape.quantize(Perceptron().eval(), "int4")
    x = torch.randn(3, 64)
    other.load_state_dict(quantised.state_dict())
    twin = copy.deepcopy(quantised)
    with torch.no_grad():
        assert torch.equal(other(x), quantised(x))
        assert torch.equal(twin(x), quantised(x))
        assert twin.first.blocks is not quantised.first.blocks
        half = copy.deepcopy(quantised).to(torch.bfloat16)
        assert torch.equal(half.first.blocks, quantised.first.blocks)
        assert half.first.weight.dtype == torch.bfloat16
        got = half(x.bfloat16())
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.float(), quantised(x), rtol=0.05, atol=0.05)
    with pytest.raises(RuntimeError, match="size mismatch"):
        anyshape.quantize(Perceptron().eval(), "int8").load_state_dict(quantised.state_dict())
    with pytest.raises(DtypeError, match="floats"):
        quantised.first(torch.ones(2, 64, dtype=torch.int64))
    np.testing.assert_array_equal(quantised.first.weight.double(), decoded(quantised.first.blocks, "q4_1"))
    x.requires_grad_(True)
    quantised(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_one_layer_is_a_model_and_a_quantised_model_another() -> None:
    layer = anyshape.quantize(nn.Linear(32, 3))
    assert isinstance(layer, QuantisedLinear)
    assert [each.name for each in layer.report.layers] == [""]
    assert "the model" in str(layer.report)
    model = Perceptron().eval()
    half = anyshape.quantize(model, "int8", skip=("second",))
    whole = anyshape.quantize(half, "int4")
    assert (whole.first.format, whole.second.format) == ("q8_0", "q4_1")
    assert whole.first.blocks is half.first.blocks


# -- the report ------------------------------------------------------------------------------------------------------


def test_the_report_says_what_numpy_says() -> None:
    model = Perceptron().eval()
    x = torch.randn(11, 64)
    quantised = anyshape.quantize(model, "int4", example=(x,))
    report = quantised.report
    first, second = report.quantised
    assert (first.shape, first.format, first.bytes_before, first.bytes_after) == ((96, 64), "q4_1", 96 * 256, 96 * 40)
    weights: Mapping[str, np.ndarray[Any, Any]] = {
        name: value.double().numpy() for name, value in model.state_dict().items()
    }
    for layer in (first, second):
        got = decoded(quantised.get_submodule(layer.name).blocks, "q4_1")
        assert layer.weight_error == pytest.approx(distance(got, weights[f"{layer.name}.weight"]), rel=1e-6)
    rows = x.double().numpy()
    bias, matrix = weights["first.bias"], decoded(quantised.first.blocks, "q4_1")
    expected = rows @ weights["first.weight"].T + bias
    assert first.output_error.exact == pytest.approx(distance(rows @ matrix.T + bias, expected), rel=1e-4)
    scales = np.abs(rows.reshape(11, 2, 32)).max(-1, keepdims=True) / 127
    near = (np.rint(rows.reshape(11, 2, 32) / scales) * scales).reshape(11, 64)
    assert first.output_error.int8 == pytest.approx(distance(near @ matrix.T + bias, expected), rel=1e-4)
    with torch.no_grad():
        exact = distance(quantised(x).double().numpy(), model(x).double().numpy())
    assert report.output_error.exact == pytest.approx(exact, rel=1e-4)
    assert report.bytes_before == sum(value.nbytes for value in model.parameters())
    kept = (model.first.bias, model.last.weight, model.last.bias)
    assert report.bytes_after == 96 * 40 + 33 * 60 + sum(value.nbytes for value in kept)
    assert "33 elements is no whole number of blocks of 32" in report.skipped[0].reason
    for word in ("second", "33×96", "q4_1", "int8 activations", "no whole number", "error of the model's results"):
        assert word in str(report)


def test_what_stays_says_why() -> None:
    class Own(nn.Linear):
        pass

    model = nn.ModuleDict({
        "plain": nn.Linear(32, 4), "own": Own(32, 4), "hooked": nn.Linear(32, 4), "empty": nn.Linear(32, 4),
        "attention": nn.MultiheadAttention(32, 2), "table": nn.Embedding(5, 32), "named": nn.Linear(32, 4),
        "infinite": nn.Linear(32, 4),
        "normed": nn.Embedding(5, 32, max_norm=1.0), "meta": nn.Linear(32, 4, device="meta"),
    }).eval()  # fmt: skip
    model["hooked"].register_forward_hook(lambda *_: None)
    model["infinite"].weight.data[1, 3] = torch.inf
    model["empty"].weight = nn.Parameter(torch.empty(4, 0))
    report = anyshape.quantize(model, skip=("nam*",)).report
    assert [layer.name for layer in report.quantised] == ["plain"]
    reasons = {layer.name: layer.reason for layer in report.skipped}
    expected = {
        "own": "Own may do more", "hooked": "hooks", "empty": "no elements", "attention.out_proj": "may do more",
        "table": "no product uses", "named": "skip", "infinite": "not finite", "normed": "max_norm", "meta": "meta",
    }  # fmt: skip
    assert reasons.keys() == expected.keys()
    assert all(text in reasons[name] for name, text in expected.items())
    with_tables = anyshape.quantize(model, embeddings=True).report
    assert "table" in {layer.name for layer in with_tables.quantised}


def test_layers_that_share_a_matrix_share_its_fate() -> None:
    report = anyshape.quantize(Tied(), "int4").report
    assert [(each.name, each.bytes_after) for each in report.quantised] == [("tokens", 70 * 40), ("head", 0)]
    with pytest.raises(ArgumentError, match="no layer that can be quantised") as error:
        anyshape.quantize(Tied(), skip=("head",))
    assert "tokens: its weight is also head.weight, which is not quantised" in str(error.value)
    with pytest.raises(ArgumentError, match=r"head: its weight is also tokens\.weight"):
        anyshape.quantize(Tied(max_norm=1.0))
    with pytest.raises(ArgumentError, match="different formats"):
        anyshape.quantize(Tied(), layers={"head": "int8", "tokens": "int4"})
    tokens = torch.tensor([[3, 5], [69, 0]])
    model = Tied()
    quantised = anyshape.quantize(model, "int8", embeddings=True)
    torch.testing.assert_close(quantised(tokens), model(tokens), rtol=0.05, atol=0.2)
    assert quantised.half()(tokens).dtype == torch.float16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "int3"}, r"(?s)cannot be quantised so.*weights.*'int3'.*'int8', 'int4', 'q4_0'"),
        ({"weights": "q4_k"}, "'q4_k'"),
        ({"weights": 8}, "cannot be quantised so"),
        ({"layers": {"first": "q3"}}, r"layers\['first'\]"),
        ({"layers": {"frist": "int4"}}, r"(?s)fits no layer.*'frist'.*first, second, last"),
        ({"skip": ("lsat",)}, r"(?s)fits no layer.*skip"),
        ({"skip": "last"}, r"\('last',\)"),
        ({"layers": {"last": "int8"}}, r"(?s)asked for by name.*last.*row of 33 elements"),
        ({"layers": {"first": "int8"}, "skip": ("first",)}, r"(?s)asked for by name.*skip"),
    ],
)
def test_errors_say_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        anyshape.quantize(Perceptron(), **arguments)


def test_models_that_cannot_be_quantised() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)only modules.*function"):
        anyshape.quantize(lambda x: x)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match=r"no layer that can be quantised"):
        anyshape.quantize(nn.Tanh())
    with pytest.raises(ArgumentError, match=r"eval\(\)"):
        anyshape.quantize(Perceptron(), example=(torch.ones(1, 64),))
    model = Perceptron()
    model.report = "mine"
    with pytest.raises(ArgumentError, match="attribute `report`"):
        anyshape.quantize(model)
