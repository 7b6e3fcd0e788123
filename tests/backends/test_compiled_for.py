"""Artifacts for targets that this version does not have."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from odtc.cli.main import main
from odtc.core.artifact import bundle as bundles
from odtc.core.errors import ExitCode
from tests.mlp import mlp

# What targets of GPUs once took, and a target of a version to come.
OTHERS = {
    "host-opencl{threads=2}": "host-opencl computes on a GPU, and takes no threads",
    "host-vulkan{threads=8}": "host-vulkan computes on a GPU, and takes no threads",
    "host-npu": "unknown target 'host-npu'",
}


def sealed_for(artifact: odtc.Artifact, target: str, path: Path) -> Path:
    """The same artifact for another target: whole, each of its parts bound to the others."""
    root = path.with_suffix("")
    shutil.copytree(artifact._bundle.root, root)
    before, program, library = artifact._bundle, root / bundles.PROGRAM, root / bundles.LIBRARY
    manifest = replace(artifact.manifest, target=target)
    identities = [bundles.identity_in(each, root) for each in (artifact.manifest, manifest)]
    was, now = map(bytes.fromhex, identities)
    program.write_bytes(program.read_bytes().replace(was, now))
    was, now = (bytes.fromhex(bundles.build_id_of("", each)) for each in (before.program, program))
    library.write_bytes(library.read_bytes().replace(was, now))
    bundles.save(bundles.seal(replace(manifest, files={}), root, before.folder), path)
    return path


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = tmp_path_factory.mktemp("mlp") / "mlp.onnx"
    onnx.save(mlp(6, 8, 3), path)
    return odtc.compile(path, "host-cpu", batch=4)


@pytest.mark.parametrize(("target", "why"), OTHERS.items())
def test_the_model_is_to_be_compiled_again(
    artifact: odtc.Artifact,
    tmp_path: Path,
    target: str,
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, data = sealed_for(artifact, target, tmp_path / "old.odtc"), tmp_path / "data.npz"
    np.savez(data, x=np.zeros((8, 6), "f4"), y=np.zeros(8, "i4"))
    for command in (
        ["train", path, "--data", data, "--steps", 1, "--lr", 0.1],
        ["profile", path],
        ["sweep", path, "-o", tmp_path / "rows"],
        ["export-app", path, "--platform", "linux", "-o", tmp_path / "app"],
    ):
        assert main([str(word) for word in command]) == ExitCode.ARTIFACT
        said = capsys.readouterr().err
        assert f"the artifact is for {target}, which is not a target of this version" in said
        assert why in said
        assert "hint: compile the model again with this version of odtc" in said
    # What it is can be seen.
    assert main(["inspect", str(path)]) == ExitCode.OK
    assert target in capsys.readouterr().out
