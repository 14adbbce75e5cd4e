"""`docs/adding-an-op.md`: the op that the page defines compiles, and passes the tests that are derived for every op."""

from collections.abc import Iterator

import pytest

from anyshape.dialects.dhlo import DhloOp
from tests.dialects.dhlo.test_samples import test_reference as check_reference
from tests.dialects.dhlo.test_samples import test_text_and_rules as check_text
from tests.docs.pages import check_page
from tests.kernels.test_every_op import test_machine_code_equals_reference as check_compiled
from tests.passes.test_pipeline import test_every_op_says_the_same_after_the_pipeline as check_passes


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the page registers is forgotten afterwards."""
    monkeypatch.setattr(DhloOp, "OPS", dict(DhloOp.OPS))
    monkeypatch.setattr(DhloOp, "OVERLOADS", dict(DhloOp.OVERLOADS))
    yield


@pytest.mark.usefixtures("own_registry")
def test_the_op_of_the_page(request: pytest.FixtureRequest) -> None:
    page = check_page("adding-an-op.md", request, blocks=3)
    op = page["Softplus"]
    assert isinstance(op, type) and issubclass(op, DhloOp)
    for sample in op.SAMPLES:
        check_passes(op, sample)
        for dtype in sample.dtypes:
            check_text(op, sample, dtype)
            check_reference(op, sample, dtype)
    check_compiled(op)
