"""Random PyTorch graphs, one seed after another: `python -m tests.fuzz --first 0 --count 1000`.

Each is compiled once and run at sizes from {0, 1, 2, 3, 7, 8, 9, 63, 64, 65}, against eager in f64, the same graph with no
optimisation, and the graph compiled for one of these sizes. A failure is made smaller and kept; `--replay FILE` runs it again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.checking import Failure, Refused, check, reduced
from tests.fuzz.graphs import Graph, random_graph, random_sizes

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the seeds that the command line asks for."""
    options = _arguments()
    if options.replay:
        return _replay(options.replay)
    warnings.simplefilter("ignore")
    failed, refused, count = list[int](), 0, 0
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    for seed in range(options.first, options.first + options.count):
        if until is not None and time.monotonic() > until:
            break
        count += 1
        choose = Random(seed)
        graph = random_graph(choose, choose.randint(1, options.steps))
        try:
            failure = check(graph, list(random_sizes(choose, options.sizes)))
        except Refused:
            refused += 1
            continue
        if failure is not None:
            failed.append(seed)
            _keep(options.keep, seed, *reduced(graph, failure))
    print(f"{count} graphs, {refused} refused, {len(failed)} failed: {failed}")
    return 1 if failed else 0


def _keep(folder: Path, seed: int, graph: Graph, failure: Failure) -> None:
    """Save a failure and print how to run it again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.json"
    path.write_text(
        json.dumps({"graph": graph.to_json(), "sizes": dict(failure.sizes), "failure": str(failure)}, indent=1)
    )
    print(f"--- seed {seed}: {failure}\n{graph}\nagain: python -m tests.fuzz --replay {path}", flush=True)


def _replay(path: Path) -> int:
    kept = json.loads(path.read_text())
    graph = Graph.from_json(kept["graph"])
    failure = check(graph, [kept["sizes"]])
    print(graph, failure or "passes", sep="\n")
    return 1 if failure else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="stop then")
    parser.add_argument("--steps", type=int, default=6, help="most steps of a graph")
    parser.add_argument("--sizes", type=int, default=6, help="sets of sizes for each graph")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "fuzz", help="folder for failures")
    parser.add_argument("--replay", type=Path, help="run a kept failure again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
