"""A process that probes overloads, one line of JSON for each dtype; `tests.opinfo.pool` starts it."""

from __future__ import annotations

import json
import os
import sys

import torch

from tests.coverage.overloads import DTYPES, call_of, in_dtypes, read_calls
from tests.coverage.probing import probe
from tests.opinfo.running import capturing_fast


def main() -> None:
    """Serve tasks `{"op": overload, "numbers": indices of dtypes}`."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    where = read_calls()
    with capturing_fast():
        for line in sys.stdin:
            task = json.loads(line)
            call = call_of(task["op"], where)
            calls = {} if call is None else dict(in_dtypes(call))
            for number in task["numbers"]:
                print(json.dumps({"begins": number, "samples": 1}), file=answers)
                found = probe(task["op"], calls[DTYPES[number]]) if DTYPES[number] in calls else None
                print(
                    json.dumps({"number": number, "samples": 1, **({} if found is None else vars(found))}), file=answers
                )
            print(json.dumps({"done": True}), file=answers)


if __name__ == "__main__":
    main()
