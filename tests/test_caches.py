"""Kernels are kept within one run of the tests, and not where a test changes the compiler."""

import os
import sys
from pathlib import Path

import onnx
import pytest
import tvm

import odtc
from odtc.backends import lowering
from odtc.backends.objects.kernel_store import kernel_store, outline_store
from odtc.backends.pipeline.phases import fuse_phase
from odtc.cli import console
from odtc.core.ir.outline_marks import OUTLINE
from odtc.passes.ir.by_kernel import ByKernel
from odtc.step_cache.store import step_store
from tests.caches import anew, is_compilers, of_this_run
from tests.mlp import mlp


def test_outlines_are_kept_and_no_steps() -> None:
    assert not outline_store().problem
    assert not kernel_store().problem
    assert step_store().problem


def test_what_python_compiles_is_kept() -> None:
    """Also where the shell that the tests are started from says otherwise."""
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (lowering, True),
        (ByKernel, True),
        (ByKernel(()), True),
        (fuse_phase, True),
        ("odtc.backends.objects.link._CANDIDATES", True),
        ("tvm.compile", True),
        (console, False),
        ("odtc.cli.console.say", False),
        (os, False),
        (1, False),
    ],
)
def test_a_part_of_the_compiler_is_told(target: object, found: bool) -> None:
    assert is_compilers(target) == found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(mlp(12, 9, 5), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_test_that_changes_the_compiler_has_its_kernels(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odtc.compile(model)
    assert outline_store().size().entries > 5
    lowered = []
    run = ByKernel.run

    def counted(self: ByKernel, module: tvm.IRModule) -> tvm.IRModule:
        kernels = [made for _, made in module.functions_items()]
        lowered.extend(made for made in kernels if OUTLINE not in made.attrs)
        return run(self, module)

    monkeypatch.setattr(console, "say", print)
    assert not outline_store().problem
    monkeypatch.setattr(ByKernel, "run", counted)
    assert outline_store().problem
    odtc.compile(model)
    assert len(lowered) > 5
    monkeypatch.undo()
    assert not outline_store().problem


def test_a_cache_of_its_own_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(ByKernel, "run", ByKernel.run)
    assert outline_store().folder.is_relative_to(tmp_path)


def test_processes_of_one_run_share_outlines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outlines_of(cache: str) -> Path:
        return Path(cache, "odtc", "outlines").resolve()

    before = outlines_of(os.environ["XDG_CACHE_HOME"])
    first = of_this_run(tmp_path / "first", is_worker=False)
    assert outlines_of(first) != before
    monkeypatch.setenv("XDG_CACHE_HOME", first)
    assert outlines_of(of_this_run(tmp_path / "second", is_worker=True)) == outlines_of(first)
    assert outlines_of(anew(tmp_path / "third")).is_file()
