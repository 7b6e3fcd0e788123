"""Stopping and going on gives the same bits as not stopping, for every optimizer and option."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import odtc
from odtc.core.errors import ArtifactError
from odtc.frontend.optimizers.table import OPTIMIZERS
from odtc.runtime_rpc.trainer import Trainer
from tests.numeric.mlp import batches, blind_weight, mlp_artifact, overflowing

# Of ten steps, the first five in a process of their own. With accumulation that is mid-way.
STEPS, STOP = 10, 5
LARGE_SCALE, OVERFLOWS = 2.0**127, (1, 6)
UPDATES = {
    **{name: kind() for name, kind in OPTIMIZERS.items()},
    "sgd, momentum": odtc.SGD(momentum=0.9, dampening=0.5),
    "rmsprop, all": odtc.RMSProp(momentum=0.9, centered=True),
    "accumulation": odtc.Update(odtc.Adam(), accumulate=4),
    "average": odtc.Update(odtc.SGD(), ema=0.9),
    "loss scale": odtc.Update(
        odtc.Adam(), loss_scale=odtc.LossScale(initial=LARGE_SCALE, interval=3)
    ),
    "all": odtc.Update(
        odtc.LAMB(),
        groups=[odtc.Group("*.bias", {"weight_decay": 0.0}, lr_factor=2.0)],
        clip_norm=0.1,
        accumulate=3,
        ema=0.9,
        loss_scale=odtc.LossScale(initial=LARGE_SCALE, interval=1),
    ),
}

_FIRST_HALF = f"""
import sys
import odtc
from tests.runtime_rpc.trainer.test_resume import train
trainer = odtc.load(sys.argv[1]).trainer(threads=1)
train(trainer, 0, {STOP})
trainer.save_checkpoint(sys.argv[2])
"""


def train(trainer: Trainer, start: int, stop: int) -> list[float]:
    """Takes these steps; with a loss scale one of them overflows in each half."""
    data = batches(STEPS)
    if trainer._manifest.update["loss_scale"]:
        data = overflowing(data, OVERFLOWS)
        if not start:
            trainer.set_parameters(blind_weight())
    return [trainer.step(x, y, lr=0.02) for x, y in data[start:stop]]


def everything(trainer: Trainer, path: Path) -> dict[str, bytes | str]:
    """Returns the contents of a checkpoint: metadata, and the bytes of each tensor."""
    trainer.save_checkpoint(path)
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118
        return tensors | file.metadata()


@pytest.mark.parametrize("name", UPDATES)
def test_resuming_is_not_stopping(name: str, tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATES[name])
    whole = artifact.trainer(threads=1)
    losses = train(whole, 0, STEPS)
    stopped = artifact.trainer(threads=1)
    train(stopped, 0, STOP)
    stopped.save_checkpoint(tmp_path / "c")
    resumed = artifact.trainer(threads=1)
    resumed.load_checkpoint(tmp_path / "c")
    assert resumed.steps == STOP
    assert train(resumed, STOP, STEPS) == losses[STOP:]
    state = everything(resumed, tmp_path / "a")
    assert state == everything(whole, tmp_path / "b")
    if artifact.manifest.update["loss_scale"]:
        (left_out,) = whole.updates - np.frombuffer(state["update/count"], np.int32)
        assert left_out == len(OVERFLOWS)


def test_resuming_in_another_process(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATES["all"])
    artifact.save(tmp_path / "all.odtc")
    whole = artifact.trainer(threads=1)
    losses = train(whole, 0, STEPS)
    paths = [tmp_path / "all.odtc", tmp_path / "c"]
    subprocess.run([sys.executable, "-c", _FIRST_HALF, *paths], check=True)
    resumed = odtc.load(tmp_path / "all.odtc").trainer(threads=1)
    resumed.load_checkpoint(tmp_path / "c")
    assert train(resumed, STOP, STEPS) == losses[STOP:]
    assert everything(resumed, tmp_path / "a") == everything(whole, tmp_path / "b")


def test_a_checkpoint_of_another_update_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    adam = mlp_artifact(tmp_path, odtc.Adam()).trainer(threads=1)
    train(adam, 0, 2)
    adam.save_checkpoint(tmp_path / "c")
    for update, text in [
        # The same state, and another meaning of it.
        (odtc.AdamW(), "the checkpoint was written with optimizer adam; the step has adamw"),
        (odtc.Update(odtc.Adam(), accumulate=2), "accumulate 1; the step has 2"),
        (odtc.Update(odtc.Adam(), ema=0.9), "4 tensors differ, such as 'ema/fc1.bias'"),
    ]:
        other = mlp_artifact(tmp_path, update).trainer(threads=1)
        before = other.parameters()
        with pytest.raises(ArtifactError, match=text):
            other.load_checkpoint(tmp_path / "c")
        assert other.steps == 0
        assert all(np.array_equal(before[name], v) for name, v in other.parameters().items())


def test_other_options_of_the_same_optimizer_go_on(tmp_path: Path) -> None:
    first = mlp_artifact(tmp_path, odtc.Adam()).trainer(threads=1)
    train(first, 0, 2)
    first.save_checkpoint(tmp_path / "c")
    second = mlp_artifact(tmp_path, odtc.Adam(weight_decay=0.1)).trainer(threads=1)
    second.load_checkpoint(tmp_path / "c")
    assert second.steps == 2


def test_set_parameters(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    one, two = artifact.trainer(threads=1), artifact.trainer(threads=1)
    train(one, 0, 3)
    two.set_parameters(one.parameters())
    x, _ = batches(1)[0]
    np.testing.assert_array_equal(one.evaluate(x), two.evaluate(x))
    # float64 is of the same kind.
    two.set_parameters({"fc2.bias": np.arange(5.0)})
    np.testing.assert_array_equal(two.parameters()["fc2.bias"], np.arange(5, dtype=np.float32))
    with pytest.raises(odtc.OdtcError, match="no weight 'w'"):
        two.set_parameters({"fc2.bias": np.zeros(5), "w": np.zeros(5)})
    assert two.parameters()["fc2.bias"][1] == 1.0


def test_export_of_the_averages(tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    trainer = mlp_artifact(tmp_path, odtc.Update(odtc.SGD(), ema=0.9)).trainer(threads=1)
    train(trainer, 0, 5)
    trainer.export_onnx(tmp_path / "average.onnx", ema=True)
    averages, weights = trainer.parameters(ema=True), trainer.parameters()
    exported = onnx.load(tmp_path / "average.onnx").graph.initializer
    assert {tensor.name for tensor in exported} == averages.keys()
    for tensor in exported:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), averages[tensor.name])
        assert not np.array_equal(averages[tensor.name], weights[tensor.name])
