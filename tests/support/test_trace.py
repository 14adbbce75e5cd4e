"""Trace: lazily made log text, stage times on a clock of ours, numbered dump files, progress in order."""

import io
from pathlib import Path

import pytest

from anyshape.support.errors import OptionError
from anyshape.support.options import Options
from anyshape.support.trace import Progress, Trace


def never() -> str:
    raise AssertionError("text was made though nobody asked for it")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_log_prints_the_names_asked_for_and_makes_no_other_text() -> None:
    stream = io.StringIO()
    trace = Trace(log=("fusion",), stream=stream)
    trace.log("fusion", lambda: "a\nb")
    trace.log("guards", never)
    assert stream.getvalue() == "[fusion] a\n[fusion] b\n"
    assert trace.enabled("fusion")
    assert not trace.enabled("guards")


def test_log_goes_to_the_standard_error_of_the_moment(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace.from_options(Options(log=("asm",)))
    trace.log("asm", lambda: "vfmadd")
    assert capsys.readouterr().err == "[asm] vfmadd\n"


def test_unknown_names_are_refused_even_when_nothing_is_printed() -> None:
    with pytest.raises(OptionError, match="fuson"):
        Trace(log=("fuson",))
    with pytest.raises(OptionError, match="fuson"):
        Trace().log("fuson", never)
    with pytest.raises(OptionError, match="fuson"):
        Trace().enabled("fuson")


def test_stages_nest_add_up_and_count() -> None:
    clock = Clock()
    trace = Trace(clock=clock)
    with trace.stage("lower"):
        clock.now += 1
        for _ in range(2):
            with trace.stage("emit"):
                clock.now += 2
    assert list(trace.stages) == ["lower", "lower/emit"]
    assert (trace.stages["lower"].seconds, trace.stages["lower"].entered) == (5, 1)
    assert (trace.stages["lower/emit"].seconds, trace.stages["lower/emit"].entered) == (4, 2)
    assert trace.times_text().splitlines()[0].split() == ["lower", "5000.0", "ms"]
    assert trace.times_text().splitlines()[1].split() == ["emit", "4000.0", "ms", "×2"]


def test_a_stage_that_fails_is_timed_and_closed() -> None:
    clock = Clock()
    trace = Trace(clock=clock)
    with pytest.raises(ZeroDivisionError), trace.stage("lower"):
        clock.now += 3
        raise ZeroDivisionError
    with trace.stage("next"):
        pass
    assert trace.stages["lower"].seconds == 3
    assert list(trace.stages) == ["lower", "next"]


def test_progress_reports_begin_steps_and_end() -> None:
    seen: list[Progress] = []
    trace = Trace(progress=seen.append)
    with trace.stage("compile"), trace.stage("kernels", total=2):
        trace.step(1, 2)
        trace.step(2, 2)
    assert seen == [
        Progress("compile", "begin"),
        Progress("compile/kernels", "begin", 0, 2),
        Progress("compile/kernels", "step", 1, 2),
        Progress("compile/kernels", "step", 2, 2),
        Progress("compile/kernels", "end", 2, 2),
        Progress("compile", "end"),
    ]


def test_dump_numbers_its_files_and_never_overwrites(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "on demand"
    trace = Trace.from_options(Options(dump=directory))
    first = trace.dump("graph", "mlir", lambda: "module {}")
    trace.dump("kernel a/b", "s", lambda: "ret")
    Trace(dump_directory=directory).dump("graph", "mlir", lambda: "second")
    assert sorted(path.name for path in directory.iterdir()) == ["00-graph.mlir", "01-kernel_a_b.s", "02-graph.mlir"]
    assert first is not None and first == directory / "00-graph.mlir"
    assert first.read_text() == "module {}"


def test_dump_without_a_directory_makes_no_text() -> None:
    assert Trace().dump("graph", "mlir", never) is None


def test_a_dump_directory_that_is_a_file_is_an_option_error(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(OptionError, match=r"Options\.dump"):
        Trace(dump_directory=occupied).dump("graph", "mlir", lambda: "")
