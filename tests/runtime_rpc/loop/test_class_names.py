"""The names of classes go with what is trained: into history, checkpoints and exported models."""

import json
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError
from tests.runtime_rpc.loop.models import classed, step_of

X, Y = classed(32)
NAMES = ["cat", "dog", "eel"]
WORDS = np.array(NAMES)[Y]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("classes"), "cross-entropy")


def names_in(path: Path) -> list[str]:
    held = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    return json.loads(held.get("class_names", "[]"))


def test_names_are_in_the_history_the_checkpoint_and_the_model(
    artifact: odtc.Artifact, tmp_path: Path
):
    trainer = artifact.trainer(threads=1)
    kept = odtc.Checkpoint(tmp_path / "c.ckpt", every=2)
    history = trainer.fit((X, WORDS), lr=0.1, epochs=1, callbacks=[kept])
    assert history.class_names == ("cat", "dog", "eel")
    trainer.export_onnx(tmp_path / "a.onnx")
    assert names_in(tmp_path / "a.onnx") == NAMES
    later = artifact.trainer(threads=1)
    later.load_checkpoint(tmp_path / "c.ckpt")
    later.export_onnx(tmp_path / "b.onnx")
    assert names_in(tmp_path / "b.onnx") == NAMES
    # Another run, whose samples say none.
    assert later.fit((X, Y), lr=0.1).class_names == ()
    later.export_onnx(tmp_path / "none.onnx")
    assert names_in(tmp_path / "none.onnx") == []


def test_validations_take_the_names_of_what_is_trained(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    few = Y > 0  # without the first, whose number a validation of its own would begin with
    by_name = trainer.fit((X, WORDS), lr=0.0, validation=(X[few], WORDS[few]))
    by_number = trainer.fit((X, Y), lr=0.0, validation=(X[few], Y[few]))
    assert by_name["val_loss"] == by_number["val_loss"]
    # Batches of a loader, too.
    loader = [(X[few], WORDS[few])]
    assert trainer.fit((X, WORDS), lr=0.0, validation=loader)["val_loss"] == by_name["val_loss"]
    with pytest.raises(DataError, match="label has bat; the classes are cat, dog, eel"):
        trainer.fit((X, WORDS), lr=0.0, validation=(X, np.where(WORDS == "cat", "bat", WORDS)))


def test_the_command_line_tells_names_and_takes_up_the_run(
    artifact: odtc.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    artifact.save(tmp_path / "a.odtc")
    np.savez(tmp_path / "d.npz", x=X, y=WORDS)
    np.savez(tmp_path / "v.npz", x=X[Y < 2], y=WORDS[Y < 2])
    files = {"--data": "d.npz", "--validation": "v.npz", "--checkpoint": "c", "--export": "t.onnx"}
    asked = ["train", str(tmp_path / "a.odtc"), "--lr", "0.1", "--json", "--threads", "1"]
    asked += [word for name, file in files.items() for word in (name, str(tmp_path / file))]
    assert main([*asked, "--epochs", "1"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["class_names"] == NAMES
    assert f"note: {tmp_path / 'd.npz'}: classes are 0 cat, 1 dog, 2 eel" in output.err
    assert names_in(tmp_path / "t.onnx") == NAMES
    assert "is what is trained" not in output.err
    # Nothing is left to do, and it says so; it writes what it is asked for again.
    (tmp_path / "t.onnx").unlink()
    assert main([*asked, "--epochs", "1", "--resume"]) == 0
    output = capsys.readouterr()
    assert "note: the run is finished, and no step is left to do: give more --epo" in output.err
    assert names_in(tmp_path / "t.onnx") == NAMES
    assert main([*asked, "--epochs", "2", "--resume"]) == 0
    output = capsys.readouterr()
    assert "is finished" not in output.err
    assert len(json.loads(output.out)["history"]) == 2


def test_what_is_measured_on_what_is_trained_is_said(
    artifact: odtc.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = "what is measured is what is trained, too"
    artifact.save(tmp_path / "a.odtc")
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    (tmp_path / "link.npz").symlink_to(tmp_path / "d.npz")
    asked = ["train", tmp_path / "a.odtc", "--lr", "0.1", "--data", tmp_path / "d.npz"]
    for option in ("--validation", "--eval-data"):
        assert main([str(word) for word in (*asked, option, tmp_path / "link.npz")]) == 0
        assert f"note: {said}" in capsys.readouterr().err
    trainer = artifact.trainer(threads=1)
    for data in ((X, Y), str(tmp_path / "d.npz")):
        with pytest.warns(UserWarning, match=said):
            trainer.fit(data, lr=0.1, validation=data)


def test_a_run_that_is_finished_is_said(artifact: odtc.Artifact, tmp_path: Path):
    kept = odtc.Checkpoint(tmp_path / "c.ckpt")
    run = {"lr": 0.1, "callbacks": [kept], "resume": tmp_path / "c.ckpt"}
    with pytest.warns(UserWarning, match="there is no checkpoint"):
        first = artifact.trainer(threads=1).fit((X, Y), epochs=1, **run)
    with pytest.warns(UserWarning, match="the run is finished at step 4, and no step is left to"):
        again = artifact.trainer(threads=1).fit((X, Y), epochs=1, **run)
    assert again.rows == first.rows


def notes_of(trainer: odtc.Trainer, data: object, validation: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(data, lr=0.0, validation=validation)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("other", "is_said"),
    [((X, Y), True), ((X[20:], Y[20:]), True), ((X[::2], Y[::2]), True), ((X.copy(), Y), False)],
)
def test_samples_that_are_in_both_are_found_in_memory(
    artifact: odtc.Artifact, other: object, is_said: bool
):
    """Each call of `fit` gets tuples of its own."""
    said = notes_of(artifact.trainer(threads=1), (X[:24], Y[:24]), other)
    assert any(each.startswith("some of what is measured is what") for each in said) == is_said


def test_samples_apart_are_no_others(artifact: odtc.Artifact):
    trainer = artifact.trainer(threads=1)
    for first, other in ((slice(16), slice(16, 32)), (slice(0, 32, 2), slice(1, 32, 2))):
        said = notes_of(trainer, (X[first], Y[first]), (X[other], Y[other]))
        assert not any("is measured is what" in each for each in said)


def test_numbers_beside_names_are_told(artifact: odtc.Artifact):
    """Who numbered them may have meant others."""
    trainer, few = artifact.trainer(threads=1), Y[:16]
    wanted = "those that are trained names: classes are 0 cat, 1 dog, 2 eel"
    assert any(wanted in each for each in notes_of(trainer, (X, WORDS), (X[:16].copy(), few)))
    for data, other in (((X, WORDS), WORDS[:16]), ((X, Y), few)):
        assert not any("names" in each for each in notes_of(trainer, data, (X[:16].copy(), other)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e20, -1e20, np.inf, np.nan, 0.5])
def test_floats_that_are_no_classes_are_refused(artifact: odtc.Artifact, value: float):
    labels = Y.astype(float)
    labels[3] = value
    said = "1 of 32 labels of label are missing" if np.isnan(value) else "labels are float64"
    with pytest.raises(DataError, match=said):
        artifact.trainer(threads=1).fit((X, labels), lr=0.0)
