"""Files of one adapter say over which base it was trained, and are taken up over no other."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import odtc
from odtc.core.disk.tensor_file import read_arrays, read_header, write_tensors
from odtc.core.errors import ArtifactError
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import unpacked
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch

OTHER = "over another base"


def step_of(path: Path, **options: Any) -> odtc.Artifact:
    return odtc.compile(path, TARGET, batch=BATCH, **LORA | options)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> odtc.Artifact:
    return step_of(model)


def saved(artifact: odtc.Artifact, path: Path) -> Path:
    with artifact.trainer(threads=1) as trainer:
        trainer.step(*batch(0), lr=LR)
        trainer.save_adapter(path)
    return path


def without_base(path: Path) -> Path:
    """The file as an older odtc wrote it."""
    with path.open("rb") as file:
        header = read_header(file)
        tensors = dict(read_arrays(file, header))
    said = {key: value for key, value in header.metadata.items() if "base" not in key}
    write_tensors(path, tensors, said, hashed=True)
    return path


def wide(folder: Path) -> Path:
    """A model whose large weights may stay in a file beside it."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    odtc.from_torch(net, torch.zeros(BATCH, 8), folder / "one.onnx")
    path = folder / "wide.onnx"
    onnx.save(onnx.load(folder / "one.onnx"), path, save_as_external_data=True, location="w")
    return path


@pytest.mark.parametrize("how", ["float", "int8", "beside"])
def test_the_artifact_knows_the_hash_of_its_frozen_weights(
    how: str, model: Path, artifact: odtc.Artifact, tmp_path: Path
) -> None:
    step, members = artifact, tmp_path / "m"
    if how == "int8":
        step = step_of(model, quantize="int8")
    if how == "beside":
        step = step_of(wide(tmp_path), weights_beside=True, lora="rank=2", train=None)
    unpacked(step, members)
    if how == "beside":
        shutil.copy(tmp_path / "w", members / "w")
    with step.trainer(threads=1) as trainer, NativeTrainer(members, 1) as c:
        said = trainer.manifest.base
        assert said
        assert trainer._base.hash == said == c.fact("base_sha256")
        trainer._base.changed()
        assert trainer._base.hash == said
        # Nor does a checkpoint change it, which has the base in it.
        trainer.save_checkpoint(tmp_path / "all")
        trainer.load_checkpoint(tmp_path / "all")
        assert trainer._base._hash == said
        trainer.save_adapter(tmp_path / "python")
        c.load_checkpoint(tmp_path / "all")
        c.save_adapter(tmp_path / "c")
        assert (tmp_path / "c").read_bytes() == (tmp_path / "python").read_bytes()


def test_weights_of_the_same_file_in_other_data_are_another_base(
    model: Path, tmp_path: Path
) -> None:
    """The hash of the model is that of its file alone."""
    steps = []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        path = folder / "m.onnx"
        onnx.save(
            onnx.load(model), path, save_as_external_data=True, location="w", size_threshold=64
        )
        if number:
            data = np.fromfile(folder / "w", np.float32)
            (data * np.float32(1.5)).tofile(folder / "w")
        steps.append(step_of(path))
    one, other = steps
    assert one.manifest.model_sha256 == other.manifest.model_sha256
    path = saved(one, tmp_path / "a")
    with other.trainer(threads=1) as trainer:
        before = trainer.parameters()
        for load in (trainer.load_checkpoint, trainer.load_adapters):
            with pytest.raises(ArtifactError, match=OTHER):
                load(path)
        with pytest.raises(ArtifactError, match=OTHER):
            trainer.add_adapter("a", path)
        assert trainer.adapters == ("default",)
        for name, value in trainer.parameters().items():
            np.testing.assert_array_equal(value, before[name])
        assert trainer.steps == 0
    with NativeTrainer(unpacked(other, tmp_path / "m"), 1) as native:
        with pytest.raises(NativeError, match=OTHER) as caught:
            native.load_checkpoint(path)
        assert caught.value.code is Code.MISFIT
        assert native.steps == 0


def test_another_quantisation_is_another_base(model: Path, tmp_path: Path) -> None:
    one, other = (step_of(model, quantize=f"int{bits}") for bits in (4, 8))
    path = saved(one, tmp_path / "a")
    with other.trainer(threads=1) as trainer, pytest.raises(ArtifactError, match=OTHER):
        trainer.load_checkpoint(path)


def test_a_base_that_was_changed_by_hand_is_another(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    path = saved(artifact, tmp_path / "a")
    frozen = next(item.spec.name for item in artifact.manifest.arguments if item.role == "frozen")
    with artifact.trainer(threads=1) as trainer:
        trainer.load_checkpoint(path)
        given = trainer.parameters()[frozen]
        trainer.set_parameters({frozen: given + 1})
        with pytest.raises(ArtifactError, match=OTHER):
            trainer.load_checkpoint(path)
        trainer.save_adapter(tmp_path / "b")
        trainer.save_checkpoint(tmp_path / "all")
        trainer.export_adapters(tmp_path / "exported")
        trainer.set_parameters({frozen: given})
        trainer.load_checkpoint(path)
        for load in (trainer.load_checkpoint, trainer.load_adapters):
            with pytest.raises(ArtifactError, match=OTHER):
                load(tmp_path / "b")
        with pytest.raises(ArtifactError, match=OTHER):
            trainer.load_adapters(tmp_path / "exported")
        trainer.add_adapter("other")
        trainer.set_parameters({frozen: given})
        with pytest.raises(ArtifactError, match="shared by the adapters"):
            trainer.set_parameters({frozen: given + 1})
        np.testing.assert_array_equal(trainer.parameters()[frozen], given)
    # A whole checkpoint brings its own base.
    with NativeTrainer(unpacked(artifact, tmp_path / "m"), 1) as native:
        with pytest.raises(NativeError, match=OTHER):
            native.load_checkpoint(tmp_path / "b")
        native.load_checkpoint(tmp_path / "all")
        native.load_checkpoint(tmp_path / "b")
        native.save_adapter(tmp_path / "c")
        with pytest.raises(NativeError, match=OTHER):
            native.load_checkpoint(path)
    with artifact.trainer(threads=1) as trainer:
        trainer.load_checkpoint(tmp_path / "all")
        trainer.load_checkpoint(tmp_path / "c")


def test_a_file_of_an_older_odtc_is_taken_with_a_note(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    path = without_base(saved(artifact, tmp_path / "a"))
    with artifact.trainer(threads=1) as trainer:
        with pytest.warns(UserWarning, match="does not say over which base"):
            trainer.load_checkpoint(path)
        assert trainer.steps == 1
        trainer.export_adapters(tmp_path / "exported")
        with pytest.warns(UserWarning, match="nothing says over which base"):
            trainer.load_adapters(without_base(tmp_path / "exported"))
    with NativeTrainer(unpacked(artifact, tmp_path / "m"), 1) as native:
        native.load_checkpoint(path)
        assert native.steps == 1


def test_a_folder_of_peft_goes_to_any_base_and_says_so(
    artifact: odtc.Artifact, model: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    folder = tmp_path / "peft"
    frozen = next(item.spec.name for item in artifact.manifest.arguments if item.role == "frozen")
    with artifact.trainer(threads=1) as trainer:
        trainer.export_peft(folder, base_model="tiny/net")
        trainer.load_adapters(folder)
        assert not [each for each in recwarn if "base" in str(each.message)]
        trainer.set_parameters({frozen: trainer.parameters()[frozen] + 1})
        with pytest.warns(UserWarning, match=OTHER):
            trainer.load_adapters(folder)
        without_base(folder / "adapter_model.safetensors")
        with pytest.warns(UserWarning, match="but for its name, 'tiny/net'"):
            trainer.load_adapters(folder)
    quantised = step_of(model, quantize="int8").trainer(threads=1)
    with artifact.trainer(threads=1) as trainer:
        trainer.export_peft(tmp_path / "again")
    with quantised, pytest.warns(UserWarning, match="quantised in another way or not at all"):
        quantised.load_adapters(tmp_path / "again")
