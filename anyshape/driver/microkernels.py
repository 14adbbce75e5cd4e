"""Objects of micro-kernels: made once for each machine, then from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyshape.codegen.llvm import Target, host_target
from anyshape.codegen.microkernels import Part, part_object
from anyshape.driver.cache import Cache, Entry, key_of
from anyshape.driver.machine import calibrated_machine
from anyshape.support.machine import Machine


def microkernel_object(target: Target, machine: Machine, part: Part, folder: Path | None) -> bytes:
    """The object of a part, from the cache in `folder` where it is there; else it is compiled, and kept there."""
    if folder is None:
        return part_object(target, machine, part)
    cache = Cache(folder)
    key = key_of("microkernels", target, machine, str(part))
    entry = cache.get(key)
    if entry is None:
        entry = Entry({}, {"microkernels": part_object(target, machine, part)})
        cache.put(key, entry)
    return bytes(entry.blobs["microkernels"])


def make(folder: str, names: Sequence[str]) -> None:
    """See to it that the cache in a folder has these parts for this machine."""
    target, machine = host_target(), calibrated_machine(Path(folder))
    for name in names:
        microkernel_object(target, machine, Part.of(name), Path(folder))


__all__ = ["make", "microkernel_object"]
