"""Random graphs, one seed after another: `python -m tests.kernels.fuzz --first 0 --count 1000`.

Each seed is one graph, run by reference and by its plans; every `--compile`-th is compiled too. A failure prints the seed
and goes on; the exit status is 1 if there was any.
"""

from __future__ import annotations

import argparse
import traceback

from tests.kernels.graphs import environments, random_function
from tests.kernels.harness import check


def main() -> int:
    """Run the seeds that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    parser.add_argument("--steps", type=int, default=8, help="rules applied to a graph")
    parser.add_argument("--compile", type=int, default=5, help="compile every how manieth graph; 0 compiles none")
    parser.add_argument("--sizes", type=int, default=3, help="sets of sizes for each graph")
    arguments = parser.parse_args()
    failed: list[int] = []
    for seed in range(arguments.first, arguments.first + arguments.count):
        func, store = random_function(seed, steps=arguments.steps)
        compiles = arguments.compile > 0 and seed % arguments.compile == 0
        try:
            check(func, list(environments(seed, arguments.sizes)), store, compile=compiles, label=f"seed {seed}")
        except Exception:
            failed.append(seed)
            print(f"--- seed {seed}")
            traceback.print_exc()
    print(f"{arguments.count} graphs, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
