"""A language model of `transformers` with its caches through `torch.compile`: tokens as eager's, and nothing compiled as a cache grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import Cache, DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

from anyshape.codegen.llvm import objects_emitted
from anyshape.driver.dynamo import backend
from anyshape.driver.remarks import JOURNAL

# PyTorch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

VOCABULARY = 89
POSITIONS = 224
PROMPT, STEPS = 7, 200
HEADS, LAYERS = 2, 2

CONFIG = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    num_key_value_heads=HEADS,
    max_position_embeddings=POSITIONS,
    initializer_range=0.3,  # so that the tokens differ
)

MOVES_NOTHING = (
    "aten::empty", "aten::as_strided", "aten::view", "aten::slice", "aten::alias", "aten::detach", "aten::item",
    "aten::_local_scalar_dense", "aten::to", "aten::set_", "aten::new_empty",
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG).eval()


@dataclass
class Counting:
    """The back end, and how many graphs it was handed."""

    graphs: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, graph_module: Any, inputs: Any) -> Any:
        self.graphs += 1
        return backend(graph_module, inputs, options=self.options)


def ops_run(call: Callable[[], Any]) -> Mapping[str, int]:
    """The ops of PyTorch that read or write elements in a call, and how often."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    ops = Counter(event.name for event in seen.events() or () if event.name.startswith("aten::"))
    return {name: count for name, count in ops.items() if not name.startswith(MOVES_NOTHING)}


def dynamic() -> Cache:
    return DynamicCache(config=CONFIG)


def static() -> Cache:
    cache = StaticCache(config=CONFIG, max_cache_len=POSITIONS)
    cache.early_initialization(1, HEADS, 16, torch.float32, torch.device("cpu"))
    return cache


def tokens_of(run: Callable[..., Any], cache: Cache, prompt: torch.Tensor, steps: int) -> Iterator[int]:
    """Greedy tokens: the prompt at once, then one token at a time."""
    ids, position = prompt, 0
    for _ in range(steps):
        places = torch.arange(position, position + ids.shape[1])[None]
        logits = run(input_ids=ids, position_ids=places, past_key_values=cache, use_cache=True).logits
        position += ids.shape[1]
        ids = logits[:, -1].argmax(-1, keepdim=True)
        yield int(ids)


def prompt_of(length: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize(
    ("make", "is_dynamic", "left"), [(dynamic, None, {}), (static, None, {"aten::copy_": LAYERS})]
)  # fmt: skip
def test_nothing_is_compiled_as_the_cache_grows(
    model: nn.Module, make: Callable[[], Cache], is_dynamic: bool | None, left: Mapping[str, int]
) -> None:
    """A static cache counts its tokens in a tensor of one element a layer, which is all that PyTorch writes itself."""
    counting = Counting()
    fast = torch.compile(model, backend=counting, dynamic=is_dynamic)
    expected = list(tokens_of(model, make(), prompt_of(PROMPT), STEPS))
    assert len(set(expected)) > 10
    got: list[int] = []
    compiled: list[tuple[int, int]] = []
    cache = make()
    for token in tokens_of(fast, cache, prompt_of(PROMPT), STEPS):
        got.append(token)
        compiled.append((counting.graphs, objects_emitted()))
    assert got == expected
    assert compiled[2:] == [compiled[2]] * (STEPS - 2)
    assert counting.graphs <= 3
    assert not JOURNAL.report().remarks
    places, token = torch.tensor([[PROMPT + STEPS - 1]]), torch.tensor([expected[-1:]])
    ops = ops_run(lambda: fast(input_ids=token, position_ids=places, past_key_values=cache, use_cache=True))
    assert ops == left
    assert list(tokens_of(fast, make(), prompt_of(PROMPT), 3)) == expected[:3]
    assert (counting.graphs, objects_emitted()) == compiled[-1]


# -- writes of parts -------------------------------------------------------------------------------------------------


def put(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    x[:, index] = part
    return x.sum()


def copied(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    return x * 2


def bounded(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    x[:, 2 : 2 + part.shape[1]] = part
    return x + index


def one_row(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    x[:, -2] = part[:, 0]
    return x + index


def twice(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> None:
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    x.index_copy_(1, torch.arange(part.shape[1]) + index + 1, part * 2)


def returned(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    return x, x.clone(), x[1:], x.reshape(-1).clone()


def old_read(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, ...]:
    old = x.clone()
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    return old, x - old


def counted(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    index.add_(part.shape[1])
    return x.amax(0)


def by_pytorch_between(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, ...]:
    before = torch.igamma(x.abs(), x.abs() + 1)
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    return before, torch.igamma(x.abs() + 1, x.abs())


def between(x: torch.Tensor, index: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.index_copy_(1, torch.arange(part.shape[1]) + index, part)
    once = x.clone()
    slice_of_once = x[:, 1:3].clone()
    x.index_copy_(1, torch.arange(part.shape[1]) + index + 1, part * 2)
    return once, slice_of_once


IN_PLACE = (put, copied, bounded, one_row, twice)
"""Functions of which PyTorch copies nothing when they have been compiled."""
Arguments = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def arguments(rows: int, index: torch.Tensor, long: int) -> Arguments:
    torch.manual_seed(rows)
    return torch.randn(2, rows, 4), index.clone(), torch.randn(2, long, 4)


def check(fast: Callable[..., Any], function: Callable[..., Any], args: Arguments) -> tuple[torch.Tensor, ...]:
    """Results and arguments as eager's; gives the arguments of the compiled call."""
    theirs, ours = ([argument.clone() for argument in args] for _ in range(2))
    expected = function(*theirs)
    versions = [argument._version for argument in ours]
    got = fast(*ours)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert [x._version > old for x, old in zip(ours, versions, strict=True)] == [x._version > 0 for x in theirs], (
        "who watches versions sees every write"
    )
    return tuple(ours)


@pytest.mark.parametrize(
    "function",
    [*IN_PLACE, returned, counted, old_read, between, by_pytorch_between],
    ids=lambda function: function.__name__,
)
def test_parts_of_arguments_are_written_as_by_eager(function: Callable[..., Any]) -> None:
    fast = torch.compile(function, backend="anyshape", dynamic=True)
    long = 1 if function is put else 3
    first = torch.tensor([4]) if function is put else torch.tensor(4)
    for rows, start in ((9, 4), (12, 0), (9, 5)):
        check(fast, function, arguments(rows, torch.full_like(first, start), long))
    assert not JOURNAL.report().of_kind("compile")
    if function is not by_pytorch_between:
        assert not JOURNAL.report().remarks
    if function in IN_PLACE:
        args = arguments(9, first, long)
        assert "aten::copy_" not in ops_run(lambda: fast(*args))


def test_positions_that_no_size_can_be() -> None:
    """Counted from the end, out of range, in no order: as eager, by an error that is an IndexError where eager's is one."""
    fast = torch.compile(put, backend="anyshape", dynamic=True)
    check(fast, put, arguments(9, torch.tensor([4]), 1))
    check(fast, put, arguments(9, torch.tensor([-1]), 1))
    for position in (9, -10):
        args = arguments(9, torch.tensor([position]), 1)
        before = args[0].clone()
        with pytest.raises(IndexError):
            fast(*args)
        torch.testing.assert_close(args[0], before, rtol=0, atol=0)
    scattered = torch.compile(put, backend="anyshape", dynamic=True, options={"strict": True})
    check(scattered, put, arguments(9, torch.tensor([7, 0, -2, 3][:2]), 2))
    check(scattered, put, arguments(11, torch.tensor([7, 0, -2, 3]), 4))
    with pytest.raises(IndexError):
        scattered(*arguments(7, torch.tensor([7, 0, -2, 3]), 4))


def test_memory_that_cannot_be_written_in_place() -> None:
    """A transposed argument, and one that shares memory with another: PyTorch runs the graph, and the elements are right."""
    fast = torch.compile(copied, backend="anyshape", dynamic=True)
    check(fast, copied, arguments(9, torch.tensor(4), 3))
    ours, theirs = (torch.arange(72.0).reshape(9, 2, 4).transpose(0, 1) for _ in range(2))
    part = torch.randn(2, 3, 4)
    torch.testing.assert_close(fast(ours, torch.tensor(1), part), copied(theirs, torch.tensor(1), part))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    ours, theirs = (torch.arange(72.0).reshape(2, 9, 4) for _ in range(2))
    got = fast(ours, torch.tensor(1), ours[:, 2:5])
    torch.testing.assert_close(got, copied(theirs, torch.tensor(1), theirs[:, 2:5].clone()))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
