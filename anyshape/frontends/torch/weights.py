"""The names of a module's weights in the store: digests of their contents, made while PyTorch captures the module."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TypeAlias

import torch
from torch import nn

from anyshape.dialects.arrays import content_name
from anyshape.frontends.torch.dtypes import array_of_tensor, dtype_of_torch
from anyshape.support.errors import DtypeError

Memory: TypeAlias = tuple[int, torch.dtype, torch.Size, int]
"""Where a dense tensor lies, what it is, and PyTorch's count of the writes to it."""


@contextmanager
def named_meanwhile(module: nn.Module) -> Generator[Mapping[Memory, str]]:
    """Digests the module's tensors in a thread, while inside; the names are complete from then on.

    Hashing needs no interpreter, capture needs nothing else: together they take no longer than capture alone.
    """
    names: dict[Memory, str] = {}
    with ThreadPoolExecutor(1) as pool:
        jobs: dict[Memory, Future[str]] = {}
        for tensor in chain(module.parameters(), module.buffers()):
            memory = memory_of(tensor)
            if memory is not None and memory not in jobs:
                jobs[memory] = pool.submit(content_name, array_of_tensor(tensor))
        try:
            yield names
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        names.update({memory: job.result() for memory, job in jobs.items()})


def memory_of(tensor: torch.Tensor) -> Memory | None:
    """None for a tensor whose array would be a copy, or that has none."""
    if type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.layout is not torch.strided:
        return None
    if tensor.device.type != "cpu" or tensor.is_inference() or not tensor.is_contiguous():
        return None
    try:
        dtype_of_torch(tensor.dtype)
    except DtypeError:
        return None
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor._version


__all__ = ["Memory", "memory_of", "named_meanwhile"]
