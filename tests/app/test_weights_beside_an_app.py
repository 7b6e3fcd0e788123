"""Weights that an artifact leaves in a file are in an app where its runtime looks for them."""

import shutil
import zipfile
from pathlib import Path

import pytest

import odtc
from odtc.app.export import export_app
from odtc.core.errors import ArtifactError, UnsupportedError
from odtc.runtime_rpc.native.binding import NativeTrainer
from tests.core.test_weights_beside import FORMS, compiled, external, half, put_place


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact and the weights beside it."""
    folder = tmp_path_factory.mktemp("made")
    compiled(FORMS["float32"], folder, weights_beside=True).save(folder / "m.odtc")
    return folder


@pytest.mark.parametrize(
    ("platform", "target", "place"),
    [
        ("ios", "ios-cpu", "MModel/Sources/MModel"),
        ("android", "android-cpu", "m.aar/assets/odtc/m"),
    ],
)
def test_they_are_beside_the_other_weights(
    platform: str, target: str, place: str, tmp_path: Path
) -> None:
    path = external(half.written(tmp_path / "m.onnx", "float32", 2, "float32"))
    lora = odtc.LoRA(rank=2, targets="k|v")
    made = odtc.compile(path, target, loss="mse", lora=lora, train=[], weights_beside=True)
    export_app(made, platform, tmp_path / "app", "m")
    archive, _, folder = place.partition("/")
    if archive.endswith(".aar"):
        with zipfile.ZipFile(tmp_path / "app" / archive) as file:
            found = {name: file.read(name) for name in file.namelist()}
    else:
        paths = (path for path in (tmp_path / "app" / archive).rglob("*") if path.is_file())
        root = tmp_path / "app" / archive
        found = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
        resources = '[.copy("program.bin"), .copy("parameters.safetensors"), .copy("weights")]'
        assert f"resources: {resources}" in found["Package.swift"].decode()
    assert f"{folder}/parameters.safetensors" in found
    assert found[f"{folder}/weights/m.bin"] == (tmp_path / "weights/m.bin").read_bytes()


def test_an_app_has_them_where_its_runtime_looks(made: Path, tmp_path: Path) -> None:
    artifact = odtc.load(made / "m.odtc")
    files = export_app(artifact, "linux", tmp_path / "app", "m")
    model = tmp_path / "app/model"
    assert model / "weights/m.bin" in files
    shutil.copyfile(model / "libm_kernels.so", model / "step.so")
    NativeTrainer(model, 1).close()
    changed = bytearray((made / "weights/m.bin").read_bytes())
    changed[-5] ^= 1
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/m.bin").write_bytes(changed)
    artifact = odtc.load(made / "m.odtc", weights=tmp_path)
    with pytest.raises(ArtifactError, match="has another weight"):
        export_app(artifact, "linux", tmp_path / "other", "m")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["program.bin", "Program.bin", "_x.bin", 'a".bin', "a b.bin"])
def test_names_that_an_app_cannot_have_are_refused(name: str, made: Path, tmp_path: Path) -> None:
    artifact = odtc.load(made / "m.odtc", weights=tmp_path)
    put_place(artifact._bundle.parameters, "0" * 64 + f" 0 {name}")
    with pytest.raises(UnsupportedError, match=r"which is not a valid file name in an app"):
        export_app(artifact, "linux", tmp_path / "app", "m")
