"""A process that runs programs until it is told to stop; the pool starts it, and another where it dies.

It reads one task a line, `{"op", "dtype", "numbers"}`, and answers with one line as a program begins, `{"begins": number}`, one as it
ends, `{"number", "samples", "right", …}`, and `{"done": true}`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

import torch

import anyshape
from tests.opinfo.errors import ERRORS, error_cases, run_case
from tests.opinfo.programs import programs_of
from tests.opinfo.running import capturing_fast, run


def main() -> None:
    """Serve tasks; the only argument is a folder for compiled kernels, which all workers share."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints must not be taken for an answer
    torch.set_num_threads(1)
    gc.freeze()  # what was imported stays, and is not worth looking at again
    options = anyshape.Options(threads=1, cache=Path(sys.argv[1]))
    with capturing_fast(), torch.no_grad():
        for line in sys.stdin:
            _serve(json.loads(line), options, answers)


def _serve(task: dict[str, Any], options: anyshape.Options, answers: IO[str]) -> None:
    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")

    if task["dtype"] == ERRORS:
        cases = {case.program.number: case for case in error_cases(task["op"])}
        for number in task["numbers"]:
            answer(begins=number, samples=1)
            outcome = run_case(cases[number], options)
            answer(number=number, samples=outcome.samples, **vars(outcome))
    else:
        programs = programs_of(task["op"], task["dtype"])
        for number in task["numbers"]:
            program = programs[number]
            answer(begins=number, samples=len(program.calls))
            answer(number=number, samples=len(program.calls), **vars(run(program, options)))
    answer(done=True)


if __name__ == "__main__":
    main()
