"""Kernels that are compiled side by side: the library is the same, and computes the same."""

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
import tvm
from tvm import te, tirx

import odtc
from odtc.artifact import Artifact
from odtc.backends import lowering
from odtc.backends.compiling import PARTS
from odtc.backends.library import export_library
from odtc.backends.lowering import build_kernels
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


def test_a_library_can_be_written_twice(tmp_path: Path) -> None:
    """What is linked as object files is code again behind that."""

    def adding(number: int) -> tirx.PrimFunc:
        x = te.placeholder((4,), name="x")
        y = te.compute((4,), lambda i: x[i] + float(number), name="y")
        return te.create_prim_func([x, y]).with_attr("global_symbol", f"add{number}")

    kernels = {f"add{number}": adding(number) for number in range(12)}
    host = parse_target("host-cpu").resolved()
    executable = build_kernels(tvm.IRModule(kernels), host, None).executable
    written = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        export_library(executable, folder / "kernels.so", host)
        written.append((folder / "kernels.so").read_bytes())
    assert written[0] == written[1]


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
