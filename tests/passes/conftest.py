"""Golden files of passes, and the flag that rewrites them: `pytest tests/passes --update-goldens`."""

import pytest


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens", default=False))
