"""Steps of which tensors wait in a file: the same bits as without, and nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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
from odtc.backends import ordered
from odtc.cli.main import main
from odtc.core.errors import BudgetError, ExitCode, OutputError, UnsupportedError, UsageError
from odtc.core.specs import Role
from odtc.driver.frontier import WITHOUT
from odtc.passes.checkpoint.problem import Storage
from odtc.runtime_rpc.memory import allocation
from tests.fast import fast_if
from tests.mounts import mounted
from tests.numeric.plans.test_memory_budget import Compile, tower, trained

# A storage that is faster than any kernel, so that plans use it wherever they can.
FAST = "host-cpu{storage_write=1e12,storage_read=1e12}"
STEPS = 3
NAMES = ("resnet18", "bert_base", "char_cnn_lstm")


@pytest.fixture(scope="module", params=NAMES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Compiles a small model with a budget, and yields the batches that it is trained with."""
    model = SMALL[request.param]
    path = tmp_path_factory.mktemp("offload") / "model.onnx"
    data = [batch for batch, _ in zip(batches(model), range(STEPS), strict=False)]
    export(make(model), data[0][0], path)

    def compile_(target: str = FAST, **options) -> Artifact:
        return odtc.compile(
            path, target, batch=model.batch, loss=model.loss, micro_batches=1, **options
        )

    return compile_, data, model.lr, compile_()


@pytest.fixture(scope="module")
def tower_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tower") / "tower.onnx"
    # Of fewer layers one kernel of some processors takes as much as all that could wait.
    onnx.save(tower(layers=4), path)
    return path


@pytest.fixture(scope="module")
def offloaded(tower_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of which tensors wait in a file."""
    path = tmp_path_factory.mktemp("artifact") / "tower.odtc"
    artifact = in_files(tower_path)
    assert artifact.manifest.stored_bytes > 0
    artifact.save(path)
    return path


def floor_of(compile_: Compile, **options) -> int:
    with pytest.raises(BudgetError) as caught:
        compile_(memory_budget=1, **options)
    return caught.value.least


def in_files(path: Path, **options) -> Artifact:
    """A model compiled for the fewest bytes that it takes with a file."""

    def compile_(**more) -> Artifact:
        return odtc.compile(path, FAST, offload=True, micro_batches=1, **options, **more)

    return compile_(memory_budget=floor_of(compile_))


def tower_data(count: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((4, 8, 12, 12), np.float32), rng.integers(0, 8, 4))
        for _ in range(count)
    ]


@pytest.mark.slow
def test_the_same_bits_in_fewer_bytes(
    compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Calls of models as small as these take hardly longer than a copy does: here one takes nothing.
    monkeypatch.setattr(ordered, "storage_cost", lambda _: Storage(0.0, 0.0, 0.0))
    compile_, data, lr, whole = compiled
    losses, parameters = trained(whole, data, lr)
    floor = floor_of(compile_, offload=True)
    assert floor <= floor_of(compile_)
    for budget in ((floor + whole.memory.arena_bytes) // 2, floor):
        artifact = compile_(memory_budget=budget, offload=True)
        memory = artifact.memory
        assert memory.arena_bytes <= budget
        assert memory.stored_bytes > 0
        stores, fetches = (
            sum(name.startswith(kind) for name in memory.plan.calls) for kind in ("store", "fetch")
        )
        assert fetches >= stores > 0
        assert f"{stores} tensors wait in {memory.stored_bytes:,}" in artifact.manifest.notes[-1]
        trainer = artifact.trainer(storage=str(tmp_path / "wait"))
        assert [trainer.step(x, y, lr) for x, y in data] == losses
        assert not any((tmp_path / "wait").iterdir()), "the file has no name"
        for name, value in trainer.parameters().items():
            np.testing.assert_array_equal(value, parameters[name], err_msg=name)


OPTIONS = {
    "accumulated": {"optimizer": odtc.Update(odtc.SGD(momentum=0.9), accumulate=2, ema=0.9)},
    "mixed": {"precision": "mixed"},
    "clipped": {"optimizer": odtc.Update(odtc.AdamW(), clip_norm=0.1)},
}


@pytest.mark.parametrize("kind", fast_if(lambda kind: kind == "mixed", OPTIONS))
def test_updates_stay_the_same(kind: str, tower_path: Path) -> None:
    def compile_(**more) -> Artifact:
        options = {"seed": 3, "micro_batches": 1, **OPTIONS[kind], **more}
        return odtc.compile(tower_path, FAST, **options)

    least = compile_(memory_budget=floor_of(compile_, offload=True), offload=True)
    assert least.memory.stored_bytes > 0
    losses, parameters = trained(compile_(), tower_data(4), 0.1)
    found, values = trained(least, tower_data(4), 0.1)
    assert found == losses
    for name, value in parameters.items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


def test_several_plans_share_one_file(tower_path: Path) -> None:
    artifact = odtc.compile(tower_path, FAST, seed=3, memory_budget="auto", offload=True)
    (storage,) = artifact.manifest.of_role(Role.STORAGE)
    assert artifact.manifest.arguments[-1] is storage
    whole = odtc.compile(tower_path, FAST, seed=3).trainer()
    losses = [whole.step(x, y, 0.1) for x, y in tower_data(6)]
    trainer = artifact.trainer()
    found = []
    plans = [*artifact.manifest.plans, artifact.manifest.plans[0]]
    for plan, (x, y) in zip(plans[::-1], tower_data(len(plans)), strict=True):
        trainer.set_budget(plan.arena_bytes)
        assert trainer.plan == plan
        found.append(trainer.step(x, y, 0.1))
    assert found == losses[: len(found)]


def test_micro_batches_and_a_file_together(tmp_path: Path) -> None:
    options = {"seed": 3, "micro_batches": 2, "allow_split_batchnorm": True, "dropout": False}
    # Of fewer layers nothing waits that is not needed at the moment of most bytes.
    onnx.save(tower(layers=5), tmp_path / "tower.onnx")

    def compile_(**more) -> Artifact:
        return odtc.compile(tmp_path / "tower.onnx", FAST, **options, **more)

    least = compile_(memory_budget=floor_of(compile_, offload=True), offload=True)
    assert least.memory.stored_bytes > 0
    assert trained(least, tower_data(), 0.1)[0] == trained(compile_(), tower_data(), 0.1)[0]


def test_never_slower_than_without(tower_path: Path) -> None:
    for target in ("host-cpu{threads=1}", FAST):
        without = odtc.plan(tower_path, target, micro_batches=1).points
        with_ = odtc.plan(tower_path, target, micro_batches=1, offload=True)
        assert all(a.time <= b.time for a, b in pairwise(with_.points))
        assert all(a.arena_bytes > b.arena_bytes for a, b in pairwise(with_.points))
        better = [
            next(each for each in with_.points if each.arena_bytes <= point.arena_bytes)
            for point in without
        ]
        pairs = list(zip(better, without, strict=True))
        assert all(ours.time <= theirs.time for ours, theirs in pairs)
        assert WITHOUT in with_.strategies
        last = with_.points[-1]
        budget = last.arena_bytes
        made = odtc.compile(tower_path, target, memory_budget=budget, offload=True, micro_batches=1)
        assert made.manifest.stored_bytes == last.stored_bytes


def test_what_is_said_of_it(
    tower_path: Path, offloaded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(offloaded), "--memory", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["stored_bytes"] == described["memory"]["stored_bytes"] > 0
    assert main(["inspect", str(offloaded), "--memory"]) == 0
    assert f"({described['stored_bytes']:,} bytes)" in capsys.readouterr().out
    picture = tmp_path / "frontier.svg"
    options = ("--target", FAST, "--micro-batches", "1", "--offload", "--plot", str(picture))
    assert main(["plan", str(tower_path), *options]) == 0
    assert "in a file" in capsys.readouterr().out
    assert WITHOUT in picture.read_text()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 8 KiB."""
    with mounted(tmp_path, "size=8k"):
        yield tmp_path


def test_a_full_disk_is_one_error(offloaded: Path, small_disk: Path) -> None:
    with pytest.raises(OutputError, match=r"no file of .* bytes .*No space left") as caught:
        odtc.load(offloaded).trainer(storage=str(small_disk))
    assert caught.value.where == str(small_disk)
    assert caught.value.hint
    assert not any(small_disk.iterdir())
    (small_disk / "room").write_bytes(bytes(4096))


CRASH = """
import os, sys, signal
import numpy as np
import odtc
trainer = odtc.load(sys.argv[1]).trainer(storage=sys.argv[2])
trainer.step(np.zeros((4, 8, 12, 12), np.float32), np.zeros(4, np.int64), 0.1)
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_file_is_left(offloaded: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH, offloaded, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    assert "(deleted)" in Path(f"/proc/{process.pid}/maps").read_text()
    assert not any(tmp_path.iterdir())
    process.send_signal(number)
    process.wait(timeout=300)
    assert not any(tmp_path.iterdir())


def test_state_lies_in_files(tower_path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(allocation, "_LEAST_FILE", 1024)
    update = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)
    artifact = odtc.compile(tower_path, optimizer=update, seed=3)
    large = [
        item
        for item in artifact.manifest.of_role(Role.STATE, Role.AVERAGE)
        if item.spec.nbytes >= 1024 and not item.is_accumulator
    ]
    trainers = artifact.trainer(), artifact.trainer(storage=str(tmp_path), offload_state=True)
    mapped = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line
    ]
    # The moments and the average of each large parameter; what is small stays in memory.
    assert len(mapped) == len(large) > 0
    assert not any(tmp_path.iterdir())
    for x, y in tower_data(4):
        losses = {trainer.step(x, y, 0.1) for trainer in trainers}
        assert len(losses) == 1
    for here, there in zip(*(t.parameters(ema=True).values() for t in trainers), strict=True):
        np.testing.assert_array_equal(here, there)


def test_state_on_the_command_line(tower_path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(allocation, "_LEAST_FILE", 1024)
    artifact, data = tmp_path / "tower.odtc", tmp_path / "data.npz"
    odtc.compile(tower_path, optimizer=odtc.Adam()).save(artifact)
    ((x, y),) = tower_data(1)
    np.savez(data, x=x, y=y)
    command = ["train", str(artifact), "--data", str(data), "--lr", "0.1", "--steps", "1"]
    assert main([*command, "--offload-state", "--storage", str(tmp_path / "files")]) == 0
    assert (tmp_path / "files").exists()
    assert main([*command, "--offload-state", "--storage", str(data)]) == ExitCode.OUTPUT


def test_where_it_cannot_be(tower_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="its GPU cannot read files"):
        odtc.compile(tower_path, "host-opencl", memory_budget="1MiB", offload=True)
    with pytest.raises(UsageError, match="no budget is given"):
        odtc.compile(tower_path, offload=True)
