"""A process that runs cases until it is told to stop; `tests.opinfo.pool` starts it, and another where it dies.

A task is one line, `{"op", "dtype": mode, "numbers"}`, where a number is the place of a case in `all_cases`. The answers are as
`tests.opinfo.worker` gives them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyshape
from tests.onnx_suite.cases import all_cases
from tests.onnx_suite.running import run


def main() -> None:
    """Serve tasks; the only argument is a folder for compiled kernels, which all workers share."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints must not be taken for an answer
    options = anyshape.Options(threads=1, cache=Path(sys.argv[1]))
    cases = list(all_cases().values())
    for line in sys.stdin:
        task = json.loads(line)
        for number in task["numbers"]:
            answers.write(json.dumps({"begins": number, "samples": 1}) + "\n")
            outcome = run(cases[number], task["dtype"], options)
            answers.write(json.dumps({"number": number, "samples": 1, **vars(outcome)}) + "\n")
        answers.write(json.dumps({"done": True}) + "\n")


if __name__ == "__main__":
    main()
