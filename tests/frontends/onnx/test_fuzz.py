"""Damaged ONNX files are refused with a typed error, or imported."""

from pathlib import Path

from tests.frontends.onnx.fuzz_onnx import contrib_model, fuzz, image_model, text_model
from tests.frontends.onnx.models import imported

COUNT = 300


def test_sound_files_are_imported() -> None:
    assert len(imported(image_model()).outputs) == 2
    assert len(imported(text_model()).outputs) == 4
    assert len(imported(contrib_model()).outputs) == 2


def test_damaged_files_give_typed_errors(tmp_path: Path) -> None:
    outcome = fuzz(tmp_path, 0, COUNT)
    assert outcome.refused > COUNT // 4
    assert outcome.accepted > COUNT // 20
