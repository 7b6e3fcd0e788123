"""Files of weights that are not those of the program, by its hash of them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import odtc
from odtc.artifact import Artifact
from odtc.backends.program.program import Program, program_of
from odtc.driver.sealed import step_program
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.native.parity import TARGET, unpacked
from tests.numeric.mlp import mlp_artifact

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the data": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "zeros in its second half": lambda data: data[: len(data) // 2].ljust(len(data), b"\0"),
    "bytes behind its end": lambda data: data + bytes(4),
}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    artifact = mlp_artifact(tmp_path_factory.mktemp("mlp"), odtc.SGD(), target=TARGET)
    return unpacked(artifact, tmp_path_factory.mktemp("members") / "artifact")


def damaged(members: Path, folder: Path, edit: Callable[[bytes], bytes]) -> Path:
    shutil.copytree(members, folder)
    path = folder / "parameters.safetensors"
    path.write_bytes(edit(path.read_bytes()))
    return path


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_data(name: str, members: Path, tmp_path: Path) -> None:
    path = damaged(members, tmp_path / "artifact", DAMAGES[name])
    with pytest.raises(NativeError, match="does not have the sha256 that the program") as caught:
        NativeTrainer(path.parent, 1)
    assert caught.value.code is Code.DAMAGED
    assert str(caught.value).startswith(str(path))


def test_other_weights_may_be_taken(members: Path, tmp_path: Path) -> None:
    path = damaged(members, tmp_path / "artifact", DAMAGES["a bit of the data"])
    with NativeTrainer(path.parent, 1, check_weights=False) as native:
        assert native.steps == 0


def test_a_program_without_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_before(*given: Any) -> Program:
        manifest, lines, identity, threads, facts, shorter = given
        facts = {k: v for k, v in facts.items() if k != "weights_sha256"}
        return program_of(manifest, lines, identity, threads, facts, shorter)

    monkeypatch.setattr(step_program, "program_of", of_before)
    artifact: Artifact = mlp_artifact(tmp_path, odtc.SGD(), target=TARGET)
    path = damaged(
        unpacked(artifact, tmp_path / "members"),
        tmp_path / "artifact",
        DAMAGES["a bit of the data"],
    )
    with NativeTrainer(path.parent, 1) as native:
        assert native.fact("weights_sha256") is None
