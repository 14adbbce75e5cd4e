"""Errors: the text a person reads, the built-in classes a caller may catch, and a round trip through pickle."""

import copy
import pickle

import pytest

from anyshape.support import errors
from anyshape.support.errors import AnyshapeError, UnsupportedOp, UnsupportedOps

PARENTS = {
    "GuardError": ValueError,
    "SingularMatrix": ValueError,
    "DtypeError": TypeError,
    "RankError": ValueError,
    "ArgumentError": TypeError,
    "IndexOutOfRange": IndexError,
    "MemoryLimit": MemoryError,
    "ArtifactError": Exception,
    "FileFormatError": ValueError,
    "TemplateError": ValueError,
    "CodegenError": RuntimeError,
    "CompileError": RuntimeError,
    "VerifyError": ValueError,
    "OptionError": ValueError,
    "ExportError": Exception,
    "ModelError": Exception,
}


def test_text_shows_the_fields_that_are_set_in_order() -> None:
    error = errors.GuardError(
        "size not allowed",
        where="input 'mask', axis 1",
        got=600,
        expected="1 <= s <= 512",
        remedy="split the input\nor export with a larger max",
    )
    assert str(error) == (
        "size not allowed\n"
        "  where:    input 'mask', axis 1\n"
        "  got:      600\n"
        "  expected: 1 <= s <= 512\n"
        "  to do:    split the input\n"
        "            or export with a larger max"
    )


def test_text_without_fields_is_the_message() -> None:
    assert str(AnyshapeError("it broke")) == "it broke"


@pytest.mark.parametrize("fields", [(), ("where",), ("got", "expected"), ("where", "got", "expected", "remedy")])
@pytest.mark.parametrize("text", ["of one line", "of two lines:\nno field"])
def test_an_error_comes_back_from_its_text(fields: tuple[str, ...], text: str) -> None:
    error = errors.SingularMatrix(f"a message {text}", **{name: f"{name} {text}" for name in fields})
    again = errors.error_from_text(errors.SingularMatrix, str(error))
    assert type(again) is errors.SingularMatrix
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_a_size_of_zero_is_shown() -> None:
    assert "got:      0" in str(errors.RankError("wrong rank", got=0))


@pytest.mark.parametrize(("name", "parent"), PARENTS.items())
def test_each_error_is_caught_as_its_builtin_and_survives_pickle(name: str, parent: type[Exception]) -> None:
    error = getattr(errors, name)("message", where="here", got=1, expected=2, remedy="do")
    assert isinstance(error, AnyshapeError)
    assert isinstance(error, parent)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert (twin.where, twin.got, twin.expected, twin.remedy) == ("here", 1, 2, "do")


def test_a_model_error_is_caught_as_what_the_model_raised() -> None:
    class Own(KeyError):
        """An error of the model's own, with a constructor of its own."""

        def __init__(self) -> None:
            super().__init__("missing")

    for cause, kind in (
        (IndexError("axis 3"), IndexError),
        (ZeroDivisionError("0"), ZeroDivisionError),
        (Own(), KeyError),
    ):
        error = errors.model_error(cause)
        assert isinstance(error, errors.ModelError)
        assert isinstance(error, kind)
        assert str(cause) in str(error)


def test_every_error_class_is_in_the_table() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, AnyshapeError) and value is not AnyshapeError
    }
    assert defined == {*PARENTS, "UnsupportedOps"}


def test_unsupported_ops_lists_every_op_once_with_all_its_lines() -> None:
    error = UnsupportedOps(
        [
            UnsupportedOp("aten.fft_rfft", "complex numbers", "model.py:3"),
            UnsupportedOp("aten.svd", "no rule"),
            UnsupportedOp("aten.fft_rfft", "complex numbers", "model.py:9"),
            UnsupportedOp("aten.fft_rfft", "complex numbers", "model.py:3"),
        ]
    )
    text = str(error)
    assert "2 different ops" in text
    assert text.count("aten.fft_rfft: complex numbers") == 1
    assert text.count("at model.py:3") == 1
    assert text.count("at model.py:9") == 1
    assert "aten.svd: no rule" in text
    assert len(error.ops) == 4
    twin = pickle.loads(pickle.dumps(error))
    assert twin.ops == error.ops
    assert str(twin) == text
