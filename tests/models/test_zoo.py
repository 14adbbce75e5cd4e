"""A model of the zoo, drawn by the commit's hash."""

import pytest

from bench.zoo import ENTRIES, Entry
from tests.drawn import drawn
from tests.models.zoo import check_entry

CHOSEN = drawn(1, ENTRIES)


@pytest.mark.parametrize("entry", CHOSEN, ids=lambda entry: entry.name)
def test_one_program_for_every_size(entry: Entry) -> None:
    check_entry(entry)
