"""The benchmark of channels last on a GPU: a row for each chain, whose losses agree."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import layouts
from tests.fast import fast_if
from tests.gpu.on_device import KINDS


@pytest.mark.parametrize("kind", fast_if("opencl".__eq__, KINDS))
def test_a_row_for_each_chain(kind: str, tmp_path: Path) -> None:
    folder, file, picture = (tmp_path / name for name in ("steps", "found.json", "found.svg"))
    layouts.prepare(folder, f"host-{kind}", 2, "16x4")
    # A process of its own, which loads the runtime that was prepared.
    command = [sys.executable, "-m", "benchmarks.gpu.layouts", "run", str(folder), "--rounds", "3"]
    command += ["--json", str(file), "--picture", str(picture)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "16 channels, 4 x 4" in done.stdout
    (row,) = json.loads(file.read_text())["chains"]
    assert (row["through"], row["channels"], row["side"]) == (kind, 16, 4)
    assert row["flops"] == 3 * 2 * 8 * (2 * 4 * 4) * 16 * 16
    assert len(row["second"]) == len(row["last"]) == 3
    assert "channels last" in picture.read_text()


def test_losses_that_differ_are_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kind, *_) = KINDS
    usual = layouts.arranged

    def other(name: str, array: np.ndarray, form: str) -> np.ndarray:
        return usual(name, array * 1.01 if (name, form) == ("w3", "last") else array, form)

    monkeypatch.setattr(layouts, "arranged", other)
    layouts.prepare(tmp_path, f"host-{kind}", 2, "16x4")
    with pytest.raises(ValueError, match="losses differ"):
        layouts.measured(tmp_path / f"{kind}-16x4", 1)


@pytest.mark.parametrize("text", ["", "16", "16x", "x4", "16x4x4", "axb"])
def test_a_shape_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="CHANNELSxSIDE"):
        layouts.sizes_of(text)
