"""Read the text of a photograph of any size: `python examples/ocr.py [PHOTO] [--output boxes.png] [--show]`.

PP-OCRv4 is two ONNX files: a detector, which says of every pixel how probably it is text, and a recogniser, which reads a line.
Each is compiled once, then runs at the size of the picture and at the length of each line; nothing is padded or cut to fit.

    pip install 'anyshape[onnx]' pillow scikit-image
    pip install --no-deps rapidocr-onnxruntime  # has the two files; what it asks for beside them is not needed
"""

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import skimage.data
from PIL import Image, ImageDraw, ImageFont
from skimage.measure import label, regionprops

import anyshape

Array = np.ndarray[Any, np.dtype[Any]]
SHORT_SIDE, LONG_SIDE = 512, 1920  # pixels: smaller pictures are enlarged, for letters a few pixels high are missed
TEXT, BOX = 0.3, 0.5  # a pixel of this probability is text, pixels of this mean probability are a line
UNCLIP = 1.6  # the detector marks the core of a line, whose letters reach out by area · 1.6 / perimeter
LINE, READ = 48, 0.7  # the height in pixels of lines that are read, their characters' mean probability to be believed


class Line(NamedTuple):
    """A line of text: the corners of its box, f64 [4, (x, y)] from the upper left one counter-clockwise, and what it says."""

    corners: Array
    text: str
    probability: float


def model_file(name: str) -> Path:
    """A model file of the package, which is not imported: that would want ONNX Runtime and OpenCV."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the models are missing: pip install --no-deps rapidocr-onnxruntime")
    return Path(spec.submodule_search_locations[0], "models", name)


def pixels(picture: Image.Image, width: int, height: int, mean: Any, deviation: Any) -> Array:
    """The picture at another size as f32 [1, (blue, green, red), height, width], normalised."""
    colours = np.asarray(picture.resize((width, height), Image.BICUBIC), np.float32)[:, :, ::-1] / 255
    return np.ascontiguousarray(((colours - mean) / deviation).transpose(2, 0, 1)[None], np.float32)


class Reader:
    """The two compiled models."""

    def __init__(self) -> None:
        self.detector = anyshape.compile(model_file("ch_PP-OCRv4_det_infer.onnx"))
        recogniser = onnx.load(model_file("ch_PP-OCRv4_rec_infer.onnx"))
        self.recogniser = anyshape.compile(recogniser)
        known = next(entry.value for entry in recogniser.metadata_props if entry.key == "character")
        self.characters = ["", *known.split("\n"), " "]  # class 0 says "no character here"

    def read(self, photo: Image.Image) -> list[Line]:
        """The lines of the photograph, from top to bottom and from left to right."""
        lines = [Line(corners, *self.recognise(photo, corners)) for corners in in_reading_order(self.detect(photo))]
        return [line for line in lines if line.probability >= READ]

    def detect(self, photo: Image.Image) -> list[Array]:
        """The corners of the boxes around lines of text."""
        scale = min(max(1, SHORT_SIDE / min(photo.size)), LONG_SIDE / max(photo.size))
        width, height = (max(32, round(side * scale / 32) * 32) for side in photo.size)
        probabilities = self.detector(pixels(photo, width, height, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))[0, 0]
        regions = regionprops(label(probabilities > TEXT), probabilities)
        likely = (each.coords[:, ::-1] + 0.5 for each in regions if each.intensity_mean > BOX and each.area > 16)
        return [box_around(points * photo.size / (width, height)) for points in likely]

    def recognise(self, photo: Image.Image, corners: Array) -> tuple[str, float]:
        """The text in a box and the mean probability of its characters."""
        width, height = np.ceil(size_of(corners)).astype(int).tolist()
        upright = photo.transform((width, height), Image.QUAD, corners.ravel().tolist(), Image.BICUBIC)
        steps = self.recogniser(pixels(upright, max(8, round(width * LINE / height)), LINE, 0.5, 0.5))[0]
        classes = steps.argmax(1)  # of probabilities [steps, characters]
        # A character that goes on for several steps is one, unless "no character" comes between.
        starts = (classes > 0) & (classes != np.concatenate([[0], classes[:-1]]))
        text = "".join(self.characters[index] for index in classes[starts])
        return text, float(steps.max(1)[starts].mean()) if text else 0.0


def box_around(points: Array) -> Array:
    """The corners of the box of a line whose core is these points [n, (x, y)], turned as they are."""
    along = np.linalg.eigh(np.cov(points.T)).eigenvectors[:, -1]
    along = along * np.sign(along[0]) if abs(along[0]) > 0.8 else np.array([1.0, 0.0])  # a column is no steep line
    axes = np.array([along, (-along[1], along[0])])
    low, high = (points @ axes.T).min(0), (points @ axes.T).max(0)
    margin = max(1, UNCLIP * np.prod(high - low) / (2 * np.sum(high - low)))
    (left, top), (right, bottom) = low - margin, high + margin
    return np.array([(left, top), (left, bottom), (right, bottom), (right, top)]) @ axes


def size_of(corners: Array) -> Array:
    """Width and height of a box."""
    return np.linalg.norm(corners[[3, 1]] - corners[0], axis=1)


def in_reading_order(boxes: list[Array]) -> list[Array]:
    """Row after row, each from left to right; what is in a row has its middle above the lower edge of the row's first."""
    rows: list[list[Array]] = []
    for box in sorted(boxes, key=lambda box: box[:, 1].mean()):
        if not rows or box[:, 1].mean() > rows[-1][0][:, 1].mean() + size_of(rows[-1][0])[1] / 2:
            rows.append([])
        rows[-1].append(box)
    return [box for row in rows for box in sorted(row, key=lambda box: box[:, 0].mean())]


def drawn(photo: Image.Image, lines: list[Line]) -> Image.Image:
    """The photograph with a box around each line, and beside it what was read, where it was read."""
    picture = Image.new("RGB", (2 * photo.width, photo.height), "white")
    picture.paste(photo)
    draw = ImageDraw.Draw(picture)
    for line in lines:
        draw.polygon(line.corners.ravel().tolist(), outline="red", width=max(1, photo.height // 400))
        width, height = size_of(line.corners) / (ImageFont.load_default(100).getlength(line.text) / 95, 1 / 0.7)
        x, y = line.corners.mean(0) + np.array([photo.width, 0])
        draw.text((x, y), line.text, "black", ImageFont.load_default(max(4, min(width, height))), anchor="mm")
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description="Read the text of a photograph.")
    parser.add_argument("photo", nargs="?", help="a picture file (default: a page out of scikit-image)")
    parser.add_argument("--output", default="boxes.png", help="the picture to write (default: %(default)s)")
    parser.add_argument("--show", action="store_true", help="open that picture")
    args = parser.parse_args()
    photo = (Image.open(args.photo) if args.photo else Image.fromarray(skimage.data.page())).convert("RGB")
    start = time.perf_counter()
    reader = Reader()
    compiled = time.perf_counter()
    lines = reader.read(photo)
    read = time.perf_counter()
    print(*(f"{line.probability:.2f}  {line.text}" for line in lines), sep="\n")
    print(
        f"{photo.width}×{photo.height}: {len(lines)} lines in {read - compiled:.2f} s; compiled in {compiled - start:.0f} s"
    )
    drawn(photo, lines).save(args.output)
    if args.show:
        Image.open(args.output).show()


if __name__ == "__main__":
    main()
