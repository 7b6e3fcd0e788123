"""`odtc export-app`: what it writes, which artifacts it refuses, and what it leaves behind."""

import json
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_model
from odtc.app.export import PLATFORMS, default_name, export_app
from odtc.artifact import Artifact
from odtc.cli.main import main
from odtc.cli.model import export_app as command
from odtc.core.errors import BuildError, ExitCode, OutputError, UnsupportedError, UsageError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("model") / "digits.onnx")
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Artifact:
    return odtc.compile(model, "host-cpu", batch=4)


def test_the_command_knows_the_platforms() -> None:
    assert tuple(PLATFORMS) == command._PLATFORMS


def test_the_command(artifact: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    artifact.save(tmp_path / "my-digits.v2.odtc")
    words = ["export-app", str(tmp_path / "my-digits.v2.odtc"), "--platform", "linux", "--json"]
    assert main([*words, "-o", str(tmp_path / "app")]) == ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["folder"], said["name"]) == (str(tmp_path / "app"), "my_digits")
    assert said["files"].keys() == {
        path.relative_to(tmp_path / "app").as_posix()
        for path in (tmp_path / "app").rglob("*")
        if path.is_file()
    }
    assert said["files"]["model/libmy_digits_kernels.so"] > 50_000
    assert main([*words, "-o", str(tmp_path / "app")]) == ExitCode.OUTPUT
    assert "the folder has files in it already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["", "Digits", "2fast", "a b", "../a", "a" * 41, "é", "a.b", "a\n"]
)
def test_names_that_are_none(artifact: Artifact, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a name for a model in an app"):
        export_app(artifact, "linux", tmp_path / "app", name)
    assert not any(tmp_path.iterdir())


def test_default_names() -> None:
    names = {"digits.odtc": "digits", "Res-Net.v2.odtc": "res_net", "a/b.c/x": "x"}
    assert {path: default_name(Path(path)) for path in names} == names


def test_another_platform(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for host-cpu, which does not run on android") as caught:
        export_app(artifact, "android", tmp_path / "app", "digits")
    assert caught.value.hint == "compile the model with --target android-cpu"


def test_a_step_for_gpus(model: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match="android-opencl, and apps have the runtime for CPUs alone"
    ):
        export_app(odtc.compile(model, "android-opencl", batch=4), "android", tmp_path / "a", "a")


def test_folders_that_are_none(artifact: Artifact, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    refused = {
        "file": "it is a file",
        "full": "has files in it",
        "none/app": "cannot write the folder: No such file",
    }
    for name, text in refused.items():
        with pytest.raises(OutputError, match=text):
            export_app(artifact, "linux", tmp_path / name, "digits")
    assert (tmp_path / "full" / "file").read_text() == (tmp_path / "file").read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "full"}
    (tmp_path / "empty").mkdir()
    assert export_app(artifact, "linux", tmp_path / "empty", "digits")


def test_nothing_is_left_of_an_export_that_fails(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BuildError("broken")

    monkeypatch.setattr("odtc.app.linux.shutil.copyfile", fails)
    with pytest.raises(BuildError, match="broken"):
        export_app(artifact, "linux", tmp_path / "app", "digits")
    assert not any(tmp_path.iterdir())
