"""The models that people run, small for tests and of real size for tables; all have random weights."""

from bench.zoo import generative, others, packaged, sound, text, vision
from bench.zoo.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *text.ENTRIES,
    *vision.ENTRIES,
    *sound.ENTRIES,
    *generative.ENTRIES,
    *others.ENTRIES,
    *packaged.ENTRIES,
)

__all__ = ["ENTRIES", "Entry"]
