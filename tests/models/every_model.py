"""The whole zoo of models; `make test-models` runs it, the suite a slice (`test_zoo.py`)."""

import pytest

from bench.zoo import ENTRIES, Entry
from tests.models.zoo import check_entry


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_one_program_for_every_size(entry: Entry) -> None:
    check_entry(entry)
