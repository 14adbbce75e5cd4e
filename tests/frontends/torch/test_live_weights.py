"""Weights that stay the module's: every way to change them shows in the next call. Oracle: eager PyTorch."""

from __future__ import annotations

import copy
import gc
import threading
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.driver.build import build_objects
from anyshape.driver.live import LiveProgram, load_live
from anyshape.frontends.torch import import_module
from anyshape.frontends.torch.live import WeightWatch
from anyshape.runtime import torch_adaptor
from anyshape.support.errors import ArgumentError
from anyshape.support.options import Options
from anyshape.support.trace import Trace


class Attend(nn.Module):
    """Attention over an embedding: q, k, v that merge, a norm, a table that is gathered from and also the last factor."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.norm = nn.LayerNorm(32)
        self.last = nn.Linear(32, 50, bias=False)
        if tied:
            self.last.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        q, k, v = (each(x).unflatten(-1, (2, 16)).transpose(1, 2) for each in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.last(self.norm(mixed + x))


TOKENS = torch.arange(12).reshape(2, 6) * 3


class Live:
    """A module compiled with live weights; the modules that it is called for give the weights."""

    def __init__(self, module: nn.Module, *example: torch.Tensor, **options: Any) -> None:
        chosen = Options(threads=2, verify=True, **options)
        imported = import_module(module, example, live_weights=True)
        names = [spec.name for spec in imported.inputs]
        self.built = build_objects(imported.module, names, imported.store, chosen, Trace.from_options(chosen))
        self.adaptor = imported.adaptor
        self.program: LiveProgram = load_live(self.built, 2)
        self.names = list(self.program.types)
        self.watch = WeightWatch(self.program, self.names)
        self.module = module

    def weights(self, module: nn.Module) -> list[torch.Tensor]:
        held = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
        return [held[name.removeprefix("live:")] for name in self.names]

    def __call__(self, *args: torch.Tensor, module: nn.Module | None = None) -> torch.Tensor:
        program = self.watch.update(self.weights(module or self.module))
        tensors = self.adaptor.flatten(args, {})
        return self.adaptor.unflatten(torch_adaptor.run(program, tensors), tensors)

    def check(self, *args: torch.Tensor, module: nn.Module | None = None) -> None:
        chosen = module or self.module
        with torch.no_grad():
            expected = chosen(*args)
        torch.testing.assert_close(self(*args, module=chosen), expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def compiled() -> Live:
    torch.manual_seed(0)
    return Live(Attend().eval(), TOKENS)


@pytest.fixture
def live(compiled: Live) -> Live:
    """The compiled graph with weights of its own for each test."""
    compiled.module = Attend().eval()
    compiled.check(TOKENS)
    return compiled


def test_an_optimiser_step_shows(live: Live) -> None:
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        optimiser = kind(live.module.parameters(), lr=0.1)
        before = live(TOKENS)
        live.module(TOKENS).square().sum().backward()
        optimiser.step()
        assert not torch.allclose(live(TOKENS), before)
        live.check(TOKENS)


def test_a_loaded_state_shows(live: Live) -> None:
    live.module.load_state_dict(Attend().state_dict())
    live.check(TOKENS)
    live.module.load_state_dict(Attend().state_dict(), assign=True)
    live.check(TOKENS)


@pytest.mark.parametrize("name", ["q", "last", "norm", "table"])
def test_a_replaced_parameter_shows(live: Live, name: str) -> None:
    owner = getattr(live.module, name)
    kept = owner.weight
    owner.weight = nn.Parameter(torch.randn_like(kept))
    live.check(TOKENS)
    owner.weight = kept
    live.check(TOKENS)
    owner.weight = None
    del kept
    gc.collect()
    owner.weight = nn.Parameter(
        torch.randn([50, 32] if name in ("last", "table") else [32, 32] if name == "q" else [32])
    )
    live.check(TOKENS)


@pytest.mark.parametrize("name", ["k.weight", "v.bias", "last.weight", "norm.weight", "table.weight"])
def test_what_is_written_through_data_shows(live: Live, name: str) -> None:
    weight = live.module.get_parameter(name)
    version = weight._version
    weight.data.copy_(torch.randn_like(weight))
    live.check(TOKENS)
    weight.data = torch.randn_like(weight)
    live.check(TOKENS)
    weight.detach().numpy()[:] *= 2
    live.check(TOKENS)
    assert weight._version == version


def test_a_transposed_parameter_is_read_with_its_strides(live: Live) -> None:
    live.module.q.weight.data = live.module.q.weight.data.t()
    live.check(TOKENS)
    live.module.table.weight.data = torch.randn(32, 50).t()
    live.check(TOKENS)
    live.module.table.weight.data += 1
    live.check(TOKENS)


def test_one_element_shows_where_it_is_counted(live: Live) -> None:
    with torch.no_grad():
        live.module.last.weight[17, 5] += 10
    live.check(TOKENS)
    with torch.inference_mode():
        live.module.last.weight[18, 6] += 10
        live.check(TOKENS)


def test_what_no_sample_sees_is_said_by_invalidate(live: Live) -> None:
    big = Live(nn.Sequential(nn.Linear(256, 256)), torch.randn(3, 256))
    x = torch.randn(4, 256)
    big.check(x)
    before = big(x)
    big.module[0].weight.data[100, 9] += 10  # one cache line of 4096, of which a round samples two
    missed = torch.equal(big(x), before)
    anyshape.invalidate(big.module[0])
    big.check(x)
    assert missed
    for _ in range(3):
        big.check(x)
    with pytest.raises(ArgumentError, match="only modules"):
        anyshape.invalidate(big)


def test_tied_weights_are_one_and_equal_ones_are_two() -> None:
    module = Attend(tied=True).eval()
    module.k.weight.data.copy_(module.q.weight.data)
    module.k.bias.data.copy_(module.q.bias.data)
    live = Live(module, TOKENS)
    assert len([name for name in live.names if "table" in name or "last" in name]) == 1
    assert {"live:q.weight", "live:k.weight"} <= set(live.names)
    live.check(TOKENS)
    with torch.no_grad():
        module.table.weight.add_(1)
        module.k.weight.mul_(2)
    live.check(TOKENS)


def test_inference_tensors() -> None:
    with torch.inference_mode():
        module = Attend().eval().requires_grad_(False)
        live = Live(copy.deepcopy(module), TOKENS)
        assert live.module.q.weight.is_inference()
        live.check(TOKENS)
        live.module.q.weight.mul_(2)
        live.check(TOKENS)
        live.module.table.weight[3] = 0
        live.check(TOKENS)
    live.module = Attend().eval()
    live.check(TOKENS)


def test_weights_are_not_kept_alive_and_forms_are_shared(live: Live) -> None:
    module = Attend().eval()
    live.check(TOKENS, module=module)
    forms = live.watch.copied_bytes
    module.last.weight = nn.Parameter(torch.randn(50, 32))
    live.check(TOKENS, module=module)
    assert live.watch.copied_bytes <= forms, "the old form went, the others were shared"
    del module
    gc.collect()
    live.watch._forget()
    live.check(TOKENS)
    assert live.watch.copied_bytes == live.program.packed_bytes


def test_one_graph_serves_several_modules_and_threads(live: Live) -> None:
    modules = [Attend().eval() for _ in range(3)]
    with torch.no_grad():
        expected = [module(TOKENS) for module in modules]
    failures: list[BaseException] = []
    for module in modules:
        live.check(TOKENS, module=module)
    sets = list(live.watch._sets.values())

    def work(index: int) -> None:
        try:
            for _ in range(30):
                torch.testing.assert_close(live(TOKENS, module=modules[index]), expected[index], rtol=1e-4, atol=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index % 3,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {id(each) for each in sets[-3:]} <= {id(each) for each in live.watch._sets.values()}, (
        "no form was made again"
    )


def test_a_call_that_changes_nothing_makes_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.watch, "_bind", lambda weights: pytest.fail("the fast path was left"))
    for _ in range(20):
        live(TOKENS)


def test_what_is_packed_is_stated_and_limited() -> None:
    module = Attend().eval()
    table = Live(module, TOKENS).built.constants
    assert table.packed_bytes == (128 * 32 + 64 * 32) * 4, "q, k and v as one, and the last factor, in columns of 64"
    assert table.copied_bytes == 96 * 4, "their biases; table and norm are the module's own memory"
    plain = Live(module, TOKENS, pack_weights=False)
    assert (plain.built.constants.packed_bytes, plain.built.constants.copied_bytes) == (0, 0)
    plain.check(TOKENS)
    assert plain.watch.copied_bytes == 0
    with torch.no_grad():
        module.q.weight.mul_(3)
        module.last.weight.mul_(3)
    plain.check(TOKENS)
    budget = 64 * 32 * 4
    limited = Live(module, TOKENS, pack_budget_bytes=budget)
    assert 0 < limited.built.constants.packed_bytes + limited.built.constants.copied_bytes <= budget
    limited.check(TOKENS)
    with torch.no_grad():
        module.q.weight.mul_(0.5)
        module.last.weight.mul_(0.5)
    limited.check(TOKENS)


def test_constants_are_limited_too() -> None:
    module = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 64)).eval()
    x = torch.randn(3, 64)
    for options, packed in (
        (Options(), 2),
        (Options(pack_weights=False), 0),
        (Options(pack_budget_bytes=64 * 128 * 4), 1),
    ):
        compiled = anyshape.compile(module, (x,), options=options)
        torch.testing.assert_close(compiled(x), module(x).detach(), rtol=1e-4, atol=1e-5)
        report = compiled.report()
        assert report.packed_bytes == packed * 64 * 128 * 4
        assert report.packed_bytes + report.copied_bytes == report.constant_bytes
        assert f"{report.packed_bytes / 2**20:.1f} MiB packed" in str(report)


def test_half_precision_weights() -> None:
    module = Attend().eval().to(torch.bfloat16)
    live = Live(module, TOKENS)
    for _ in range(2):
        with torch.no_grad():
            expected = module(TOKENS)
            module_f64 = copy.deepcopy(module).to(torch.float64)(TOKENS)
        error = (live(TOKENS).double() - module_f64).abs().max()
        assert error <= 2 * (expected.double() - module_f64).abs().max()
        module.v.weight.data.mul_(2)


def test_weights_must_be_what_their_memory_holds(live: Live) -> None:
    weights = live.weights(live.module)
    with pytest.raises(ArgumentError, match="number of weights"):
        live.watch.update(weights[1:])
    for wrong in (weights[0].to("meta"), weights[0].detach().to_sparse(), None, 3.0):
        with pytest.raises(ArgumentError, match=r"memory holds|no tensor"):
            live.watch.update([wrong, *weights[1:]])
    with pytest.raises(ArgumentError, match="another type"):
        live.watch.update([weights[0].detach().double(), *weights[1:]])
    live.check(TOKENS)
