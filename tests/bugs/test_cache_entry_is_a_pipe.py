"""A named pipe where a cache entry should be is refused at once: nobody will ever write to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyshape.driver.cache import Cache, CacheWarning, Entry


def test_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache = Cache(folder)
    cache.put("key", Entry({}, {"object": b"code"}))
    (path,) = folder.iterdir()
    path.unlink()
    os.mkfifo(path)
    with pytest.warns(CacheWarning, match="regular file"):
        assert cache.get("key") is None
    cache.put("key", Entry({}, {"object": b"code"}))
    entry = cache.get("key")
    assert entry is not None and entry.blobs["object"] == b"code"
