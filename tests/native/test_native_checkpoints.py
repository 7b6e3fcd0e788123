"""Checkpoints of the native runtime are those of TVM: each reads the other's."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.artifact import Artifact
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import (
    TARGET,
    assert_same_tensors,
    bits,
    feed,
    native_trainer,
    tvm_trainer,
    unpacked,
)
from tests.numeric.mlp import batches, mlp_artifact, mlp_model

UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9)
# So steps count as much as their labels, whose weights are added up as gradients are.
OPTIONS = {"target": TARGET, "loss": "cross-entropy{ignore-index=0}"}
LR, DATA = 0.05, batches(6)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return mlp_artifact(tmp_path_factory.mktemp("mlp"), UPDATE, **OPTIONS)


def steps(native: NativeTrainer, artifact: Artifact, first: int, last: int) -> list[str]:
    found = []
    for x, y in DATA[first:last]:
        feed(native, artifact.manifest, x, y)
        found.append(bits(native.step(LR)))
    return found


# Behind an update, and between two, where the sums of gradients are saved as well.
@pytest.mark.parametrize("before", [2, 3])
def test_the_same_steps_give_the_same_file(before: int, artifact: Artifact, tmp_path: Path) -> None:
    with (
        tvm_trainer(artifact, threads=1) as trainer,
        native_trainer(artifact, tmp_path / "a") as native,
    ):
        for x, y in DATA[:before]:
            trainer.step(x, y, lr=LR)
        steps(native, artifact, 0, before)
        trainer.save_checkpoint(tmp_path / "python")
        native.save_checkpoint(tmp_path / "native")
        assert (tmp_path / "native").read_bytes() == (tmp_path / "python").read_bytes()
        assert {path.name for path in tmp_path.iterdir()} == {"a", "python", "native"}


@pytest.mark.parametrize("before", [2, 3])
def test_each_goes_on_from_the_other_s(before: int, artifact: Artifact, tmp_path: Path) -> None:
    with native_trainer(artifact, tmp_path / "a") as native:
        undisturbed = steps(native, artifact, 0, 6)
    with (
        tvm_trainer(artifact, threads=1) as trainer,
        native_trainer(artifact, tmp_path / "b") as native,
    ):
        losses = steps(native, artifact, 0, before)
        native.save_checkpoint(tmp_path / "native")
        trainer.load_checkpoint(tmp_path / "native")
        x, y = DATA[before]
        losses.append(bits(trainer.step(x, y, lr=LR)))
        trainer.save_checkpoint(tmp_path / "python")
    with (
        tvm_trainer(artifact, threads=1) as trainer,
        native_trainer(artifact, tmp_path / "c") as native,
    ):
        native.load_checkpoint(tmp_path / "python")
        trainer.load_checkpoint(tmp_path / "python")
        assert native.steps == before + 1
        assert_same_tensors(native, trainer)
        assert losses + steps(native, artifact, before + 1, 6) == undisturbed


def test_sums_of_other_micro_batches_are_rescaled(artifact: Artifact, tmp_path: Path) -> None:
    split = mlp_artifact(tmp_path, UPDATE, micro_batches=4, **OPTIONS)
    with native_trainer(artifact, tmp_path / "a") as native:
        steps(native, artifact, 0, 3)
        native.save_checkpoint(tmp_path / "whole")
    with tvm_trainer(split, threads=1) as trainer, native_trainer(split, tmp_path / "b") as native:
        trainer.load_checkpoint(tmp_path / "whole")
        native.load_checkpoint(tmp_path / "whole")
        assert_same_tensors(native, trainer)


def test_names_of_any_letters(tmp_path: Path) -> None:
    """In the file they are escaped, once in the header and twice among the hashes."""
    name = 'größe"\\\t\N{GRINNING FACE}\x7f'
    model = mlp_model()
    for node in model.graph.node:
        node.input[:] = [name if each == "fc1.bias" else each for each in node.input]
    for each in model.graph.initializer:
        each.name = name if each.name == "fc1.bias" else each.name
    onnx.save(model, path := tmp_path / "m.onnx")
    artifact = odtc.compile(path, TARGET, batch=8)
    with (
        tvm_trainer(artifact, threads=1) as trainer,
        native_trainer(artifact, tmp_path / "a") as native,
    ):
        assert ("parameter", name) in native.tensors
        trainer.save_checkpoint(tmp_path / "python")
        native.save_checkpoint(tmp_path / "native")
        assert (tmp_path / "native").read_bytes() == (tmp_path / "python").read_bytes()
        native.load_checkpoint(tmp_path / "python")


def edited(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


DAMAGE = {
    "a number": (
        edited(lambda d: d[:-1] + bytes([d[-1] ^ 1])),
        Code.DAMAGED,
        "does not match its recorded hash",
    ),
    "the header": (
        edited(lambda d: d.replace(b'"step":"3"', b'"step":"4"')),
        Code.DAMAGED,
        "the header of the checkpoint does not match its recorded hash",
    ),
    "another model": (
        edited(lambda d: d.replace(b'model_sha256":"', b'model_sha256":"0', 1)),
        Code.MISFIT,
        "was written with model_sha256 0",
    ),
    "a short file": (edited(lambda d: d[:-100]), Code.DAMAGED, "does not fit its place"),
    "nothing": (edited(lambda d: b""), Code.DAMAGED, "is empty"),
    "another kind of file": (
        edited(lambda d: b"P5 28 28 255 " + bytes(784)),
        Code.DAMAGED,
        "checkpoint: the header of the tensors cannot be read",
    ),
    "no file": (lambda path: path.unlink(), Code.NO_FILE, "cannot be read"),
    "other tensors": (
        lambda path: shutil.copy(path.parent / "a" / "parameters.safetensors", path) and None,
        Code.DAMAGED,
        "the file is not a checkpoint of odtc",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_damaged_changes_nothing(name: str, artifact: Artifact, tmp_path: Path) -> None:
    change, code, text = DAMAGE[name]
    with native_trainer(artifact, tmp_path / "a") as native:
        steps(native, artifact, 0, 3)
        native.save_checkpoint(path := tmp_path / "checkpoint")
        steps(native, artifact, 3, 4)
        before = {key: tensor.tobytes() for key, tensor in native.tensors.items()}
        change(path)
        with pytest.raises(NativeError, match=text) as caught:
            native.load_checkpoint(path)
        assert caught.value.code is code
        assert str(caught.value).startswith(str(path))
        assert native.steps == 4
        assert before == {key: tensor.tobytes() for key, tensor in native.tensors.items()}


def test_a_checkpoint_of_another_optimizer(artifact: Artifact, tmp_path: Path) -> None:
    other = mlp_artifact(tmp_path, odtc.Update(odtc.SGD(), accumulate=2))
    with other.trainer(threads=1) as trainer:
        trainer.save_checkpoint(tmp_path / "sgd")
    with (
        native_trainer(artifact, tmp_path / "a") as native,
        pytest.raises(NativeError, match="with optimizer sgd; the step has adamw"),
    ):
        native.load_checkpoint(tmp_path / "sgd")


def test_what_is_not_finite_is_not_written(artifact: Artifact, tmp_path: Path) -> None:
    with native_trainer(artifact, tmp_path / "a") as native:
        native.save_checkpoint(path := tmp_path / "checkpoint")
        before = path.read_bytes()
        native.tensors["parameter", "fc1.bias"][2] = np.nan
        with pytest.raises(NativeError, match=r"fc1\.bias is not finite") as caught:
            native.save_checkpoint(path)
        assert caught.value.code is Code.NOT_FINITE
        native.load_checkpoint(path)
        with pytest.raises(NativeError, match="cannot be written: No such file"):
            native.save_checkpoint(tmp_path / "nowhere" / "checkpoint")
        assert path.read_bytes() == before


def test_two_processes_that_write_one_checkpoint_each_write_it_whole(tmp_path: Path) -> None:
    """One waits for the other: the file is whole at any moment, and nothing is left beside it."""
    artifact = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9), target=TARGET)
    path = tmp_path / "out" / "checkpoint"
    path.parent.mkdir()
    members = [unpacked(artifact, tmp_path / name) for name in ("one", "other")]
    trainers = [NativeTrainer(folder, 1, folder) for folder in members]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            list(pool.map(lambda trainer: trainer.save_checkpoint(path), trainers))
            trainers[0].load_checkpoint(path)
    assert [each.name for each in path.parent.iterdir()] == ["checkpoint"]


def test_what_a_killed_process_left_of_a_checkpoint_is_written_over(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), target=TARGET)
    native = native_trainer(artifact, tmp_path / "artifact")
    (tmp_path / "checkpoint.odtc-part").write_bytes(b"a part" * 1_000_000)
    native.save_checkpoint(tmp_path / "checkpoint")
    native.load_checkpoint(tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint.odtc-part").exists()


def test_a_link_in_the_place_of_the_part_is_not_followed(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), target=TARGET)
    native = native_trainer(artifact, tmp_path / "artifact")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "checkpoint.odtc-part").symlink_to(tmp_path / "mine")
    with pytest.raises(NativeError, match="cannot be written"):
        native.save_checkpoint(tmp_path / "checkpoint")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_checkpoint_in_memory_is_that_of_a_file(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, UPDATE, target=TARGET)
    native = native_trainer(artifact, tmp_path / "artifact")
    first = steps(native, artifact, 0, 3)
    checkpoint = native.checkpoint()
    native.save_checkpoint(tmp_path / "file")
    assert checkpoint == (tmp_path / "file").read_bytes()
    rest = steps(native, artifact, 3, 6)
    native.load_bytes(checkpoint)
    assert native.steps == 3
    assert (native.checkpoint(), steps(native, artifact, 3, 6)) == (checkpoint, rest)
    # Memory that is not a file's is only read: after it was taken up, it is as it was.
    again = native_trainer(artifact, tmp_path / "again")
    given = bytes(bytearray(checkpoint))
    again.load_bytes(given)
    assert given == checkpoint
    assert steps(again, artifact, 3, 6) == rest
    assert first


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, -1])
def test_a_checkpoint_in_memory_that_is_damaged_changes_nothing(
    artifact: Artifact, tmp_path: Path, cut: int
) -> None:
    native = native_trainer(artifact, tmp_path / "artifact")
    steps(native, artifact, 0, 2)
    whole = native.checkpoint()
    edited = bytearray(whole)
    edited[-3] ^= 64
    for damaged in (whole[:cut], bytes(edited)):
        with pytest.raises(NativeError) as caught:
            native.load_bytes(damaged)
        assert caught.value.code == Code.DAMAGED
    assert native.checkpoint() == whole
