"""Activations saved as float16 to keep within a budget: exact loss, gradients close to exact."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.artifact import Artifact
from odtc.cli.main import main
from odtc.core.errors import UsageError
from odtc.driver.sealed.notes import HALF_ACTIVATIONS
from tests.fast import fast_if
from tests.numeric.plans.test_memory_budget import floor_of, tower, trained

# Residuals and batch statistics, attention, branches that are joined.
NAMES = ("resnet18", "bert_base", "googlenet")
# A value is rounded by 2**-11 of itself at most, and a gradient is a sum of products of them.
ERROR = 2.0**-9


@pytest.fixture(scope="module", params=fast_if(lambda name: name == "resnet18", NAMES))
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Compiles a small model, and yields batches and a learning rate to train it with."""
    model = SMALL[request.param]
    path = tmp_path_factory.mktemp("half") / "model.onnx"
    data = [batch for batch, _ in zip(batches(model), range(2), strict=False)]
    export(make(model), data[0][0], path)

    def compile_(**options) -> Artifact:
        return odtc.compile(path, batch=model.batch, loss=model.loss, micro_batches=1, **options)

    return compile_, data, model.lr


@pytest.fixture(scope="module")
def tower_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tower") / "tower.onnx"
    onnx.save(tower(), path)
    return path


def is_half(artifact: Artifact) -> bool:
    return HALF_ACTIVATIONS in artifact.manifest.notes


def changes(artifact: Artifact, data, lr: float) -> tuple[float, np.ndarray]:
    """The loss of one step, and what it adds to all trained parameters."""
    trainer = artifact.trainer()
    before = trainer.parameters()
    loss = trainer.step(*data[0], lr)
    after = trainer.parameters()
    # Running statistics are no gradients.
    statistics = ("running_mean", "running_var")
    added = [after[n] - before[n] for n in before if not n.endswith(statistics)]
    return loss, np.concatenate([each.ravel() for each in added])


def test_a_smaller_floor_with_an_exact_loss(compiled) -> None:
    compile_, data, lr = compiled
    floor = floor_of(compile_)
    least = floor_of(compile_, allow_half_activations=True)
    assert least < floor
    artifact = compile_(memory_budget=least, allow_half_activations=True)
    assert is_half(artifact)
    assert artifact.memory.plan.arena_bytes <= least
    (exact, gradient), (loss, rounded) = (changes(a, data, lr) for a in (compile_(), artifact))
    assert loss == exact
    off = np.linalg.norm(rounded - gradient) / np.linalg.norm(gradient)
    assert 0 < off < ERROR


def test_only_where_it_is_needed(tower_path: Path) -> None:
    whole = odtc.compile(tower_path)
    for options in ({}, {"micro_batches": 1}):
        same = odtc.compile(
            tower_path,
            memory_budget=whole.memory.arena_bytes,
            allow_half_activations=True,
            **options,
        )
        assert not is_half(same)
        assert same.memory.plan.calls == whole.memory.plan.calls


def test_with_micro_batches(tower_path: Path) -> None:
    options = {"micro_batches": 2, "allow_split_batchnorm": True, "dropout": False}

    def compile_(**more) -> Artifact:
        return odtc.compile(tower_path, **options, **more)

    least = floor_of(compile_, allow_half_activations=True)
    artifact = compile_(memory_budget=least, allow_half_activations=True)
    assert is_half(artifact)
    assert artifact.manifest.micro_batches == 2
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((4, 8, 12, 12), np.float32), rng.integers(0, 8, 4))]
    assert trained(artifact, data, 0.1)[0] == trained(compile_(), data, 0.1)[0]


def test_plans_say_what_is_float16(
    tower_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = odtc.plan(tower_path)
    found = odtc.plan(tower_path, allow_half_activations=True)
    assert not found.points[0].half
    assert found.points[-1].half
    assert all(a.time <= b.time for a, b in pairwise(found.points))
    assert all(a.budget_bytes > b.budget_bytes for a, b in pairwise(found.points))
    for point in exact.points:
        better = next(p for p in found.points if p.budget_bytes <= point.budget_bytes)
        assert better.time <= point.time
    artifact = odtc.compile(
        tower_path, memory_budget=found.points[-1].budget_bytes, allow_half_activations=True
    )
    assert is_half(artifact)

    onnx.save(tower(layers=2), small := tmp_path / "small.onnx")
    picture = tmp_path / "frontier.svg"
    command = ["plan", str(small), "--allow-half-activations", "--plot", str(picture)]
    assert main(command) == 0
    assert "float16" in capsys.readouterr().out
    assert "saved as float16" in picture.read_text()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"][-1]["half"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no budget is given"),
        ({"memory_budget": "auto"}, "bit-identical results"),
        ({"memory_budget": "1MiB", "precision": "mixed"}, "mixed precision"),
    ],
)
def test_where_it_cannot_be(tower_path: Path, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        odtc.compile(tower_path, allow_half_activations=True, **options)
    assert caught.value.where == "allow_half_activations"
    assert caught.value.hint
