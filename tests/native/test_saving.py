"""Where the native runtime writes a checkpoint, and what is said where it cannot."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import odtc
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from tests.mounts import mounted
from tests.native.parity import TARGET, native_trainer
from tests.numeric.mlp import mlp_artifact


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeTrainer]:
    folder = tmp_path_factory.mktemp("mlp")
    artifact = mlp_artifact(folder, odtc.SGD(), target=TARGET)
    with native_trainer(artifact, folder / "members") as native:
        yield native


@pytest.mark.parametrize("is_there", [True, False])
def test_links_are_followed_and_stay(
    is_there: bool, native: NativeTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    file = tmp_path / "disk" / "checkpoint"
    if is_there:
        file.write_text("an older one")
    (tmp_path / "disk" / "second").symlink_to("checkpoint")
    (tmp_path / "link").symlink_to("disk/second")
    (tmp_path / "whole").symlink_to(tmp_path / "link")
    for path in (tmp_path / "link", tmp_path / "whole", Path("link")):
        monkeypatch.chdir(tmp_path)
        native.save_checkpoint(path)
        assert file.read_bytes() == native.checkpoint()
        assert path.is_symlink()
        file.unlink()
    assert {each.name for each in file.parent.iterdir()} == {"second"}


def test_what_is_no_file_is_not_replaced(native: NativeTrainer, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "ring").symlink_to("ring")
    (tmp_path / "link").symlink_to(pipe)
    for name in ("pipe", "folder", "ring", "link"):
        with pytest.raises(NativeError, match=f"/{name} cannot be written: ") as caught:
            native.save_checkpoint(tmp_path / name)
        assert caught.value.code is Code.NO_FILE
    assert pipe.is_fifo()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_full_disk(native: NativeTrainer, tmp_path: Path) -> None:
    with mounted(tmp_path, "size=8k") as folder:
        (folder / "filler").write_bytes(bytes(8 << 10))
        with pytest.raises(NativeError, match="/checkpoint cannot be written: No space") as caught:
            native.save_checkpoint(folder / "checkpoint")
        assert caught.value.code is Code.NO_ROOM
        assert [each.name for each in folder.iterdir()] == ["filler"]
