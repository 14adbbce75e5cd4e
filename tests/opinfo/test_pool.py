"""A worker that dies or hangs costs one program; counts may only improve; a stopped run goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.opinfo.pool import Pool, Record, Task
from tests.opinfo.results import Results, compare, letter_of, merged

WORKER = """
import json, os, sys, time
for line in sys.stdin:
    for number in json.loads(line)["numbers"]:
        print(json.dumps({"begins": number, "samples": 2}), flush=True)
        if number == 3:
            os.abort()
        if number == 5:
            time.sleep(60)
        print(json.dumps({"number": number, "samples": 2, "right": 2}), flush=True)
    print(json.dumps({"done": True}), flush=True)
"""


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    """What a pool reports of workers that abort at program 3 and hang at program 5."""
    (tmp_path / "worker.py").write_text(WORKER)
    found: list[Record] = []
    pool = Pool(2, found.append, command=(sys.executable, str(tmp_path / "worker.py")), seconds=1.0)
    assert pool.run([Task("a", "float32", (0, 3, 4)), Task("b", "float32", (5,)), Task("c", "float32", (1, 2))])
    return found


def test_a_dead_worker_costs_one_program(records: list[Record]) -> None:
    letters = {(record["op"], record["number"]): letter_of(record) for record in records}
    assert letters == {("a", 0): ".", ("a", 3): "x", ("a", 4): ".", ("b", 5): "t", ("c", 1): ".", ("c", 2): "."}
    (dead,) = (record for record in records if record["number"] == 3)
    assert dead["crashed"] == 2 and next(iter(dead["reasons"])).startswith("exit status -6")


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results(path).add({"op": "a", "dtype": "bool", "number": 1, "samples": 3, "right": 3})
    again = Results(path)
    assert again.letters() == {"a": {"bool": "-."}}
    lines = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({"sources": "other"}), *lines[1:]]) + "\n")
    assert Results(path, go_on=True).letters() == {"a": {"bool": "-."}}
    assert not Results(path).records


def test_counts_may_only_improve() -> None:
    old, new = {"a": {"bool": ".rp-"}}, {"a": {"bool": "r.-w"}, "b": {"bool": "r"}}
    worse, better = compare(old, new)
    assert worse == {("a", "bool", 0): (".", "r"), ("a", "bool", 3): ("r", "w")}
    assert better.keys() == {("a", "bool", 1), ("b", "bool", 0)}
    assert merged(old, new) == {"a": {"bool": "r.pw"}, "b": {"bool": "r"}}
    assert compare(new, new) == ({}, {})
