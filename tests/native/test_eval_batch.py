"""Evaluations that are compiled for fewer samples: which of them runs, and what they give."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.cli.main import main
from odtc.core.artifact.bundle import PROGRAM
from odtc.core.errors import ExitCode, UnsupportedError, UsageError
from odtc.runtime_rpc.feed.batches import size_for
from tests.native.parity import TARGET, native_trainer
from tests.native.reader import read
from tests.native.test_samples import (
    BATCH,
    UPDATE,
    assert_same_samples,
    centred,
    compiled,
    model_of,
)
from tests.numeric.mlp import INPUTS, mlp_artifact, mlp_model
from tests.numeric.plans.test_memory_budget import tower


@pytest.mark.parametrize(
    ("sizes", "micro_batches"), [(1, 1), ((3, 1, 8), 1), ((1, 3, 6), 2)], ids=str
)
def test_any_number_of_samples(sizes, micro_batches: int, tmp_path: Path) -> None:
    options = {"target": TARGET, "eval_batch": sizes, "micro_batches": micro_batches}
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, **options)
    x = np.random.default_rng(1).standard_normal((BATCH, INPUTS)).astype(np.float32)
    assert_same_samples(artifact, tmp_path, x)


def test_batch_norms_dropout_and_several_plans(tmp_path: Path) -> None:
    onnx.save(tower(layers=1), path := tmp_path / "tower.onnx")
    options = {"batch": 4, "eval_batch": (1, 2), "memory_budget": "auto"}
    artifact = odtc.compile(path, TARGET, optimizer=UPDATE, **options)
    x = np.random.default_rng(1).standard_normal(artifact.manifest.inputs[0].shape)
    assert_same_samples(artifact, tmp_path, x.astype(np.float32))


def test_samples_along_another_axis_and_indices(tmp_path: Path) -> None:
    text = "(int64[3, 8] x) => (float[3, 8, 4] y) { h = Gather (w, x) y = MatMul (h, v) }"
    model = model_of(text, w=(10, 6), v=(6, 4))
    artifact = compiled(model, tmp_path, batch_axis={"x": 1, "y": 1}, eval_batch=(1, 3))
    x = np.random.default_rng(1).integers(0, 10, (3, 8))
    assert_same_samples(artifact, tmp_path, x)


def calls_for(sizes: Sequence[int], samples: int) -> list[int]:
    found = []
    while samples > 0:
        found.append(size_for(sizes, samples))
        samples -= found[-1]
    return found


def test_which_of_them_runs(tmp_path: Path) -> None:
    """As few samples are filled up as there are; the clock of the runtime tells what it called."""
    assert [calls_for([8, 3, 1], n) for n in range(1, 9)] == [
        *([1], [3], [3], [8], [8], [8], [8], [8])
    ]
    assert calls_for([8, 1], 3) == [1, 1, 1]
    assert calls_for([8, 3], 1) == [3]
    assert calls_for([4, 1], 7) == [4, 4]
    assert calls_for([32], 70) == [32, 32, 32]
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, target=TARGET, eval_batch=(1, 3))
    program = read((artifact._bundle.root / PROGRAM).read_bytes())
    kernels = {
        each["samples"]: [kernel for kernel, _ in each["calls"]]
        for each in program.functions
        if each["output"]
    }
    assert len({*map(tuple, kernels.values())}) == 3
    with native_trainer(artifact, tmp_path / "native") as native:
        for samples in range(1, BATCH + 1):
            native.start_clock()
            native.evaluate_samples(samples)
            found = [kernel for kernel, *_ in native.stop_clock()]
            wanted = calls_for([8, 3, 1], samples)
            assert found == [kernel for size in wanted for kernel in kernels[size]]


def test_what_is_compiled_for_them(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, target=TARGET, eval_batch=(1, 3))
    (usual,) = artifact.manifest.evaluations
    assert [*usual.by_samples] == [8, 3, 1]
    program = read((artifact._bundle.root / PROGRAM).read_bytes())
    found = [each for each in program.functions if each["output"]]
    assert [each["samples"] for each in found] == [8, 3, 1]
    assert {(each["shape"], each["axis"], each["groups"]) for each in found} == {((8, 5), 0, 1)}
    # Weights are there once: what is more are kernels and calls.
    assert len({each["number"] for each in program.tensors if each["in"] == "argument"}) <= len(
        program.arguments
    )
    with pytest.raises(UsageError, match="evaluations of 9 samples do not fit a batch of 8"):
        mlp_artifact(tmp_path, UPDATE, BATCH, eval_batch=(1, 9))
    with pytest.raises(UsageError, match="evaluations of 0 samples"):
        mlp_artifact(tmp_path, UPDATE, BATCH, eval_batch=0)


def test_samples_that_depend_on_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="evaluated for 1 of 4 samples: nothing shows where"):
        compiled(centred(), tmp_path, batch=4, eval_batch=1)


@pytest.mark.parametrize("model", ["apart", "together"])
def test_a_check_says_what_a_compile_does(model: str, tmp_path: Path, capsys) -> None:
    onnx.save(mlp_model() if model == "apart" else centred(), path := tmp_path / "m.onnx")
    words = [str(path), "--loss", "mse", "--eval-batch", "1", "3"]
    if model == "apart":
        assert main(["check", *words]) == 0
        return
    said = []
    for command in (["check"], ["compile", "--batch", "3", "-o", str(tmp_path / "m.odtc")]):
        assert main([*command, *words]) == ExitCode.UNSUPPORTED
        # Behind the stages that the command goes through.
        said.append(capsys.readouterr().err.partition("error: ")[2])
    assert said[0] == said[1]
    assert "the model cannot be evaluated for 1 of 3 samples" in said[0]


def test_micro_batches_that_are_smaller_are_said(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, BATCH, eval_batch=(1, 6), micro_batches=2)
    assert [*artifact.manifest.evaluations[0].by_samples] == [4, 1]
    assert "evaluations of 6 samples run as micro-batches, which are smaller" in (
        artifact.manifest.notes
    )
