"""Random graphs of `dhlo`, one seed after another: `python -m tests.kernels.fuzz --first 0 --count 1000`.

Each seed is one graph, run op by op by the references, which is the graph with no optimisation at all, and by its plans; every
`--compile`-th is compiled too. A failure is made smaller, by applying fewer rules, and its text is kept; the exit status is then 1.
Graphs of PyTorch's ops are `tests.fuzz`.
"""

from __future__ import annotations

import argparse
import traceback
from pathlib import Path

from tests.kernels.graphs import environments, random_function
from tests.kernels.harness import check

SIZES = (0, 1, 2, 3, 7, 8, 9, 63, 64, 65)
ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the seeds that the command line asks for."""
    options = _arguments()
    failed: list[int] = []
    for seed in range(options.first, options.first + options.count):
        compiles = options.compile > 0 and seed % options.compile == 0
        error = _failure(seed, options.steps, options.sizes, compiles)
        if error is not None:
            failed.append(seed)
            steps, error = _fewest_steps(seed, options.steps, options.sizes, compiles, error)
            print(f"--- seed {seed} with {steps} rules, kept in {_keep(options.keep, seed, steps)}")
            traceback.print_exception(error)
    print(f"{options.count} graphs, {len(failed)} failed: {failed}")
    return 1 if failed else 0


def _failure(seed: int, steps: int, sizes: int, compiles: bool) -> Exception | None:
    func, store = random_function(seed, steps=steps)
    try:
        check(func, list(environments(seed, sizes, SIZES)), store, compile=compiles, label=f"seed {seed}")
    except Exception as error:  # whatever it is, the seeds after it are run
        return error
    return None


def _fewest_steps(seed: int, steps: int, sizes: int, compiles: bool, error: Exception) -> tuple[int, Exception]:
    """The rules that a seed applies begin with those that it applies when there are fewer."""
    for fewer in range(1, steps):
        found = _failure(seed, fewer, sizes, compiles)
        if found is not None:
            return fewer, found
    return steps, error


def _keep(folder: Path, seed: int, steps: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dhlo-{seed}.mlir"
    path.write_text(str(random_function(seed, steps=steps)[0]) + "\n")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="how many seeds")
    parser.add_argument("--steps", type=int, default=8, help="rules applied to a graph")
    parser.add_argument("--compile", type=int, default=5, help="compile every how manieth graph; 0 compiles none")
    parser.add_argument("--sizes", type=int, default=3, help="sets of sizes for each graph")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "fuzz", help="folder for failures")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
