"""Checkpoints of several adapters, and of one without its base."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

import odtc
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import ArtifactError, NumericError
from odtc.core.specs import Role
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from odtc.runtime_rpc.state.checkpoint import read_run, write_checkpoint
from odtc.runtime_rpc.state.parked import saved_arguments
from tests.native.parity import unpacked
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch, kept


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), path)
    update = odtc.Update("adam", accumulate=2)
    return odtc.compile(path, TARGET, batch=BATCH, optimizer=update, **LORA)


def trained(artifact: odtc.Artifact, *adapters: str) -> odtc.Trainer:
    """Adapters of 1, 2, ... steps, of which the last is at work."""
    trainer = artifact.trainer(threads=1)
    for number, name in enumerate(adapters, 1):
        if name not in trainer.adapters:
            trainer.add_adapter(name)
        trainer.set_adapter(name)
        for seed in range(number):
            trainer.step(*batch(seed + number), lr=LR)
        trainer.progress, trainer.run = f"of {name}", {"data": name}
    return trainer


def everything(trainer: odtc.Trainer) -> dict[str, Any]:
    found = {}
    now = trainer.active_adapter
    for name in trainer.adapters:
        trainer.set_adapter(name)
        found[name] = (
            trainer.steps,
            trainer.progress,
            trainer.step(*batch(9), lr=LR),
            kept(trainer),
        )
    trainer.set_adapter(now)
    return found


def test_all_of_them_go_on_to_the_same_bits(artifact: odtc.Artifact, tmp_path: Path) -> None:
    names = ("default", "alice", "bob")
    with trained(artifact, *names) as trainer:
        trainer.set_adapter("alice")
        trainer.save_checkpoint(tmp_path / "c")
        trainer.save_checkpoint(tmp_path / "again")
        expected = everything(trainer)
    assert (tmp_path / "c").read_bytes() == (tmp_path / "again").read_bytes()
    with artifact.trainer(threads=1) as fresh:
        fresh.load_checkpoint(tmp_path / "c")
        assert (fresh.adapters, fresh.active_adapter) == (names, "alice")
        assert (bob := fresh._adapters["bob"])
        assert bob.run == {"data": "bob"}
        assert everything(fresh) == expected


def test_the_base_is_there_once(artifact: odtc.Artifact, tmp_path: Path) -> None:
    items = artifact.manifest.arguments
    of_base = {item.spec.name: item.spec.nbytes for item in items if item.role is Role.FROZEN}
    assert of_base
    names: list[list[str]] = []
    with trained(artifact, "default", "alice", "bob") as trainer:
        trainer.save_adapter(tmp_path / "one", "alice")
        names += [list(load_file(tmp_path / "one"))]
        while len(trainer.adapters) > 1:
            trainer.save_checkpoint(tmp_path / "c")
            names += [list(load_file(tmp_path / "c"))]
            trainer.delete_adapter(trainer.adapters[0])
        trainer.save_checkpoint(tmp_path / "c")
        names += [list(load_file(tmp_path / "c"))]
    one, three, two, single = names
    assert not of_base.keys() & set(one)
    for each in (three, two, single):
        assert sum(name in of_base for name in each) == len(of_base)
    # One of two steps has no sums of gradients.
    own = len(single) - len(of_base)
    assert len(three) == len(of_base) + 2 * own + len(one)


def test_one_alone_goes_on_in_another_trainer(artifact: odtc.Artifact, tmp_path: Path) -> None:
    with trained(artifact, "default", "alice", "bob") as trainer:
        trainer.save_adapter(tmp_path / "alice", "alice")
        trainer.save_adapter(tmp_path / "bob")
        expected = everything(trainer)
    with artifact.trainer(threads=1) as fresh:
        fresh.load_checkpoint(tmp_path / "bob")
        fresh.add_adapter("a", tmp_path / "alice")
        found = everything(fresh)
        assert found == {"default": expected["bob"], "a": expected["alice"]}


def test_the_native_runtime_takes_one_after_the_other(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    members = unpacked(artifact, tmp_path / "members")
    with trained(artifact, "default", "alice", "bob") as trainer:
        trainer.save_checkpoint(tmp_path / "all")
        for name in trainer.adapters:
            trainer.save_adapter(tmp_path / name, name)
        with NativeTrainer(members, 1) as native:
            frozen = {k: v.copy() for k, v in native.tensors.items() if k[0] == "frozen"}
            for name in ("bob", "default", "bob", "alice"):
                native.load_checkpoint(tmp_path / name)
                trainer.set_adapter(name)
                assert native.steps == trainer.steps
                native.save_adapter(tmp_path / "native")
                trainer.run, trainer.progress = {}, ""
                trainer.save_adapter(tmp_path / "python")
                assert (tmp_path / "native").read_bytes() == (tmp_path / "python").read_bytes()
                for item in trainer.manifest.arguments:
                    if item.role in (Role.PARAMETER, Role.STATISTIC):
                        value = native.tensors[item.role.value, item.spec.name]
                        np.testing.assert_array_equal(value, trainer.parameters()[item.spec.name])
            for key, value in frozen.items():
                np.testing.assert_array_equal(native.tensors[key], value)
            with pytest.raises(NativeError, match="odtc-checkpoint-4") as caught:
                native.load_checkpoint(tmp_path / "all")
            assert caught.value.code is Code.UNSUPPORTED


def test_one_of_a_single_adapter_leaves_the_others(artifact: odtc.Artifact, tmp_path: Path) -> None:
    with trained(artifact, "default") as one:
        one.save_checkpoint(tmp_path / "single")
        expected = everything(one)
    with trained(artifact, "alice", "bob") as trainer:
        before = everything(trainer)
        trainer.load_checkpoint(tmp_path / "single")
        assert trainer.adapters == ("default", "alice", "bob")
        after = everything(trainer)
    del before["bob"], before["default"]
    assert after["bob"] == expected["default"]
    assert before.keys() == {"alice"}


def test_what_a_checkpoint_changes_beside_is_said(artifact: odtc.Artifact, tmp_path: Path) -> None:
    with trained(artifact, "default", "alice") as trainer:
        trainer.save_checkpoint(tmp_path / "c")
    with trained(artifact, "default", "bob", "eve") as trainer:
        with pytest.warns(UserWarning, match="the checkpoint has no|the checkpoint uses") as said:
            trainer.load_checkpoint(tmp_path / "c")
        texts = [str(each.message).removeprefix(f"{tmp_path / 'c'}: ") for each in said]
        assert texts == [
            "the checkpoint has no adapters bob, eve: dropped",
            "the checkpoint uses the adapter 'alice' instead of 'eve'; trainer.set_adapter changes "
            "that",
        ]
        assert (trainer.adapters, trainer.active_adapter) == (("default", "alice"), "alice")


def test_what_a_file_says_of_a_run_holds_until_a_step_is_taken(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    with trained(artifact, "default", "alice", "bob") as trainer:
        trainer.save_checkpoint(tmp_path / "c")
    names = "default", "alice", "bob"
    with artifact.trainer(threads=1) as other:
        other.load_checkpoint(tmp_path / "c")
        other.set_adapter("alice")
        other.step(*batch(0), lr=LR)
        other.save_checkpoint(tmp_path / "d")
    runs = [read_run(tmp_path / "d", name) or {} for name in names]
    assert [run.get("data") for run in runs] == ["default", None, "bob"]


def test_another_base_is_refused(artifact: odtc.Artifact, tmp_path: Path) -> None:
    with artifact.trainer(threads=1) as other:
        name = next(i.spec.name for i in other.manifest.of_role(Role.FROZEN))
        other.set_parameters({name: other.parameters()[name] + 1})
        other.save_checkpoint(tmp_path / "c")
    with trained(artifact, "default", "bob") as trainer:
        before = kept(trainer)
        with pytest.raises(ArtifactError, match=f"has another {name}, which is frozen"):
            trainer.load_checkpoint(tmp_path / "c")
        assert kept(trainer) == before


def test_one_that_is_not_finite_is_not_written(artifact: odtc.Artifact, tmp_path: Path) -> None:
    with trained(artifact, "default", "bob") as trainer:
        trainer.set_parameters({"head.bias": np.full(4, np.nan, np.float32)})
        trainer.set_adapter("default")
        with pytest.raises(NumericError, match=r"odtc-adapter:bob:head\.bias") as caught:
            trainer.save_checkpoint(tmp_path / "c")
        assert "delete_adapter" in str(caught.value)
        with pytest.raises(NumericError, match=r"'head\.bias'"):
            trainer.save_adapter(tmp_path / "c", "bob")
        assert not (tmp_path / "c").exists()
        trainer.save_adapter(tmp_path / "c")


ADAPTERS = [
    "{}",
    "[]",
    "{",
    '{"active": "x", "all": {"default": {}}}',
    '{"active": "default", "all": {"default": {}, "../b": {"step": 1, "run": {}}}}',
    '{"active": "default", "all": {"default": {}, "bob": {"step": -1, "run": {}}}}',
    '{"active": "default", "all": {"default": {}, "bob": {"step": true, "run": {}}}}',
    '{"active": "default", "all": {"default": {}, "bob": {"step": 2, "run": []}}}',
    '{"active": ["default"], "all": {"default": {}}}',
    '{"active": "default", "all": ["default"]}',
    None,
]


@pytest.mark.parametrize("text", ADAPTERS)
def test_damaged_lists_of_adapters(
    text: str | None, artifact: odtc.Artifact, tmp_path: Path
) -> None:
    with trained(artifact, "default", "bob") as trainer:
        trainer.save_checkpoint(tmp_path / "c")
        with safe_open(tmp_path / "c", framework="numpy") as file:
            metadata = {k: v for k, v in file.metadata().items() if k not in ("hashes", "sha256")}
        del metadata["adapters"]
        metadata |= {} if text is None else {"adapters": text}
        write_tensors(tmp_path / "c", load_file(tmp_path / "c"), metadata, hashed=True)
        before = kept(trainer)
        with pytest.raises(ArtifactError, match="the checkpoint is damaged"):
            trainer.load_checkpoint(tmp_path / "c")
        assert kept(trainer) == before


def test_a_file_of_an_adapter_brings_no_base(artifact: odtc.Artifact, tmp_path: Path) -> None:
    """One that has some is none: the native runtime refuses it, and changes nothing."""
    trainer = trained(artifact, "alice", "bob")
    manifest, path = trainer.manifest, tmp_path / "one.ckpt"
    tensors = trainer._read(*saved_arguments(manifest, trainer.steps))
    frozen = [item.spec.name for item in manifest.of_role(Role.FROZEN)]
    tensors |= {name: tensors[name] + 1 for name in frozen}
    write_checkpoint(path, manifest, trainer.steps, tensors, {}, base=False)
    with NativeTrainer(unpacked(artifact, tmp_path / "members"), 1) as native:
        with pytest.raises(NativeError, match="does not fit the step, which has no first") as error:
            native.load_checkpoint(path)
        assert error.value.code == Code.MISFIT
