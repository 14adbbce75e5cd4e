"""The demonstration: one compilation for all sizes, and figures that programs can read."""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from rich.console import Console

import anyshape
from anyshape.cli import demo, minilm
from anyshape.cli.dispatch import main
from anyshape.cli.timing import alternate
from anyshape.codegen import llvm
from anyshape.support.options import Options
from anyshape.support.trace import Progress

PAIRS = 6


@dataclass
class Run:
    """One run: its standard output and error, and how many objects there were when each call of `compile` returned and when
    the language model's part began."""

    lines: list[str]
    shown: str
    objects_after_each_compile: list[int]
    objects_before_the_text: list[int]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    compile_, print_text, counts, before_text = anyshape.compile, demo.print_text, list[int](), list[int]()
    stdout, stderr = io.StringIO(), io.StringIO()

    def counted(*args: Any, **kwargs: Any) -> Any:
        program = compile_(*args, **kwargs)
        counts.append(llvm.objects_emitted())
        return program

    def noted(console: Console, options: Options) -> None:
        before_text.append(llvm.objects_emitted())
        print_text(console, options)

    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        patch.setattr(anyshape, "compile", counted)
        patch.setattr(demo, "print_text", noted)
        with pytest.raises(SystemExit) as stopped:
            main(["demo", "--json", "--pairs", str(PAIRS), "--threads", "1"])
    assert not stopped.value.code
    yield Run(stdout.getvalue().splitlines(), stderr.getvalue(), counts, before_text)
    torch.set_num_threads(threads)


def test_the_last_line_holds_the_figures(run: Run) -> None:
    figures = json.loads(run.lines[-1])
    assert figures.keys() == {"compiles", "seconds_compile", "max_abs_err", "rows"}
    assert figures["compiles"] == 1
    assert figures["seconds_compile"] > 0
    assert 0 < figures["max_abs_err"] < 1e-4
    assert [(row["batch"], row["length"]) for row in figures["rows"]] == list(demo.PAIRS[:PAIRS])
    for row in figures["rows"]:
        assert row.keys() == {"batch", "length", "ms", "eager_ms"}
        assert row["ms"] > 0
        assert row["eager_ms"] > 0


def test_nothing_is_compiled_after_the_one_compilation(run: Run) -> None:
    assert run.objects_after_each_compile == run.objects_before_the_text
    assert len(run.objects_before_the_text) == 1


def test_a_language_model_has_the_last_word(run: Run) -> None:
    title, _, text = run.shown.rpartition("SmolLM2-135M-Instruct")[2].partition("\n")
    assert title.endswith("to read and write:")
    assert "sky" in text


def test_the_list_of_sizes() -> None:
    assert len(set(demo.PAIRS)) == len(demo.PAIRS) >= 40
    assert {(1, 1), (1, 2), (7, 3), (1, 333), (16, 200)} <= set(demo.PAIRS[:PAIRS])


def test_later_objects_count_as_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = demo.Compiled(None, None, 1.0, llvm.objects_emitted())
    assert demo.count_compilations(compiled) == 1
    monkeypatch.setattr(llvm, "_objects_emitted", llvm.objects_emitted() + 1)
    assert demo.count_compilations(compiled) == 2


def test_the_bar_moves_forward_with_stages_known_and_unknown() -> None:
    done: list[float] = []
    bar = demo.CompileBar(Console(file=io.StringIO()))
    with bar:
        for progress in (
            Progress("import", "begin"),
            Progress("import", "end"),
            Progress("a stage of tomorrow", "begin"),
            Progress("a stage of tomorrow", "end"),
            Progress("emit kernels", "begin"),
            Progress("emit kernels", "step", 3, 4),
            Progress("emit kernels", "end"),
        ):
            bar(progress)
            done.append(bar.share_done)
    assert done == sorted(done)
    assert done[0] < done[1] == done[3] < done[5] < done[6] < bar.share_done == pytest.approx(1.0)


def test_the_difference_counts_kept_tokens_and_sentences_only() -> None:
    mask = torch.tensor([[1, 1, 0]])
    tokens, sentences = torch.zeros(1, 3, 4), torch.zeros(1, 4)
    other = tokens.clone()
    other[0, 2] = 7.0  # a padded token
    assert minilm.largest_difference((other, sentences), (tokens, sentences), mask) == 0.0
    other[0, 1, 3] = 0.5
    assert minilm.largest_difference((other, sentences), (tokens, sentences), mask) == 0.5
    assert minilm.largest_difference((tokens, sentences - 2), (tokens, sentences), mask) == 2.0
    other[0, 0] = float("nan")
    assert minilm.largest_difference((other, sentences), (tokens, sentences), mask) == float("inf")
    assert minilm.largest_difference((tokens[:, :2], sentences), (tokens, sentences), mask) == float("inf")


def test_random_inputs_are_the_same_each_time_and_ragged_rows_keep_a_token() -> None:
    first, second = (minilm.random_inputs(9, 5, ragged=True) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    lengths = first["attention_mask"].sum(1)
    assert lengths.min() >= 1
    assert len(lengths.unique()) > 1


def test_similar_pairs_are_ordered() -> None:
    vectors = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]]), dim=1)
    assert [pair[1:] for pair in minilm.similar_pairs(vectors, 2)] == [(0, 2), (1, 2)]


def test_functions_take_turns() -> None:
    calls: list[str] = []
    samples = alternate(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=0.0, block=1, rounds=2, settling=0.0
    )
    assert calls == ["a", "b", "a", "a", "b", "b", "b", "b", "a", "a"]  # one each to estimate; then settle and measure
    assert {name: len(times) for name, times in samples.items()} == {"a": 2, "b": 2}
