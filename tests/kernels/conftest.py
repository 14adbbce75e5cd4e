"""The flag that rewrites golden files: `pytest tests/kernels --update-goldens`."""

import pytest


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens", default=False))
