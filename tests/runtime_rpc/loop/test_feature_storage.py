"""Memory for features, where a system gives a file no blocks by a call."""

import os
from pathlib import Path

import numpy as np
import pytest

from odtc.runtime_rpc.loop.features import storage


@pytest.mark.parametrize("system", ["with", "without"])
def test_a_large_array_has_a_file_of_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(storage, "_IN_MEMORY", 64)
    if system == "without":
        monkeypatch.delattr(os, "posix_fallocate")
    shape = (1 << 18, 5)  # more than is written at once, and no multiple of it
    found = storage.kept_array(shape, "float32")
    assert isinstance(found, np.memmap)
    assert found.shape == shape
    assert not found.any()
    found[-1] = 1
    assert found.sum() == 5
