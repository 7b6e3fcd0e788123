"""Weights that an artifact leaves in a file are in an app where its runtime looks for them."""

import zipfile
from pathlib import Path

import pytest

import odtc
from odtc.app.export import export_app
from tests.core.test_weights_beside import external, half


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
