"""`docs/tour.md` says what the compiler prints: every block of code is run, and the block behind it is its output."""

import pytest

from tests.docs.pages import check_page


def test_the_tour_prints_what_it_says(request: pytest.FixtureRequest) -> None:
    check_page("tour.md", request, blocks=8)
