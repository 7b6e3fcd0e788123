"""Kernels that are compiled side by side: the library is the same, and computes the same."""

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
import tvm

import odtc
from odtc import compilation
from odtc.artifact import Artifact
from odtc.backends import lowering
from odtc.backends.compiling import PARTS
from odtc.backends.library import export_library
from odtc.backends.targets import parse_target
from odtc.core import side_by_side as module
from odtc.core.bundle import LIBRARY
from odtc.core.side_by_side import side_by_side
from tests.numeric.test_memory_budget import tower


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tower.onnx"
    onnx.save(tower(layers=2), path)
    return path


def losses(artifact: Artifact) -> list[float]:
    trainer = artifact.trainer()
    x, y = np.linspace(-1, 1, 4 * 8 * 144, dtype=np.float32).reshape(4, 8, 12, 12), np.arange(4)
    return [trainer.step(x, y, 0.1) for _ in range(3)]


def test_cores_do_not_change_a_library(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for cores in (1, 2, 7):
        monkeypatch.setattr(module.os, "sched_getaffinity", lambda _, n=cores: set(range(n)))
        artifact = odtc.compile(model, "host-cpu{threads=1}", seed=3)
        artifact.save(tmp_path / "m.odtc")
        with ZipFile(tmp_path / "m.odtc") as bundle:
            made.append(bundle.read(LIBRARY))
    assert made[0] == made[1] == made[2]


def test_the_same_bits_as_all_at_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = losses(odtc.compile(model, seed=3))
    family_of = lowering.family_of
    assert family_of(parse_target("host-cpu").resolved()).parts == PARTS
    monkeypatch.setattr(
        lowering, "family_of", lambda *given, **more: replace(family_of(*given, **more), parts=1)
    )
    assert losses(odtc.compile(model, seed=3)) == parts


def test_parts_are_code_again_behind_the_library(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = []

    def export(executable: tvm.runtime.Executable, *given) -> None:
        for _ in range(2):
            kinds.append([part.kind for part in executable.mod.imports])
            export_library(executable, *given)

    monkeypatch.setattr(compilation, "export_library", export)
    losses(odtc.compile(model, seed=3))
    assert kinds[0] == kinds[1]
    assert kinds[0].count("llvm") > 1


def test_work_ends_at_the_first_error() -> None:
    begun = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError(item)
        return -item

    assert side_by_side(lambda item: -item, range(100)) == [-item for item in range(100)]
    assert side_by_side(work, []) == []
    with pytest.raises(ValueError, match="1"):
        side_by_side(work, range(10_000))
    assert len(begun) < 10_000
