"""Weights beside an artifact on a device: sent once, kept, found again, and never trusted."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tvm import rpc

import odtc
from odtc.cli.main import main
from odtc.core.errors import ArtifactError
from odtc.runtime_rpc.engines.served import ServedEngine
from odtc.runtime_rpc.sessions.remote import RemoteSession
from tests.core.test_weights_beside import FORMS, RATE, compiled, half, same, steps
from tests.runtime_rpc.own_server import NATIVE, SANITIZED, serving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    folder = tmp_path_factory.mktemp("made")
    compiled(FORMS["float32"], folder, weights_beside=True).save(folder / "m.odtc")
    return odtc.load(folder / "m.odtc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("kept") / "sessions"
    with serving(folder, server=NATIVE) as running:
        yield folder, running


@pytest.fixture
def sessions(server: tuple[Path, str]) -> Path:
    """The folder of a server that keeps nothing yet."""
    folder, _ = server
    shutil.rmtree(folder / "weights", ignore_errors=True)
    return folder


@pytest.fixture
def url(server: tuple[Path, str], sessions: Path) -> str:
    return server[1]


def kept(sessions: Path) -> list[Path]:
    """The files that the device keeps."""
    return sorted(path for path in (sessions / "weights").rglob("*") if path.is_file())


def of_sessions(sessions: Path) -> list[Path]:
    """The files of sessions that run, but for those that are small."""
    found = sessions.glob("odtc-session-*/**/*")
    return [path for path in found if path.is_file() and "weights" in path.as_posix()]


def test_they_are_sent_once(url: str, sessions: Path, made: odtc.Artifact) -> None:
    wanted = steps(made.trainer(threads=1))
    trainer = made.trainer(url, threads=1)
    assert isinstance(trainer._engine, ServedEngine)
    same(steps(trainer), wanted)
    trainer.session.close()
    (file,) = kept(sessions)
    assert file.relative_to(sessions / "weights").parts[1:] == ("weights", "m.bin")
    assert file.read_bytes() == (made._bundle.folder / "weights/m.bin").read_bytes()
    before = file.stat()
    trainer = made.trainer(url, threads=1)
    assert not of_sessions(sessions)
    same(steps(trainer), wanted)
    trainer.session.close()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("fault", ["byte", "end", "missing"])
def test_what_was_damaged_there_is_sent_again(
    fault: str, url: str, sessions: Path, made: odtc.Artifact
) -> None:
    made.trainer(url, threads=1).session.close()
    (file,) = kept(sessions)
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    if fault == "missing":
        file.unlink()
    else:
        file.write_bytes(data if fault == "byte" else data[:-9])
    trainer = made.trainer(url, threads=1)
    same(steps(trainer), steps(made.trainer(threads=1)))
    trainer.session.close()
    assert kept(sessions) == [file]
    assert file.read_bytes() == (made._bundle.folder / "weights/m.bin").read_bytes()


def test_files_with_other_bytes_are_not_sent(url: str, sessions: Path, tmp_path: Path) -> None:
    compiled(FORMS["float32"], tmp_path, weights_beside=True).save(tmp_path / "m.odtc")
    artifact = odtc.load(tmp_path / "m.odtc")
    data = bytearray((tmp_path / "weights/m.bin").read_bytes())
    data[-5] ^= 1
    (tmp_path / "weights/m.bin").write_bytes(data)
    with pytest.raises(ArtifactError, match="has another weight"):
        artifact.trainer(url)
    (tmp_path / "weights/m.bin").unlink()
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        artifact.trainer(url)
    assert not kept(sessions)


def test_where_others_may_write_nothing_is_kept(
    url: str, sessions: Path, made: odtc.Artifact
) -> None:
    (sessions / "weights").mkdir()
    (sessions / "weights").chmod(0o777)
    trainer = made.trainer(url, threads=1)
    assert not kept(sessions)
    assert of_sessions(sessions)
    same(steps(trainer), steps(made.trainer(threads=1)))
    trainer.session.close()


def test_the_command_line_takes_them_to_a_device(
    url: str, made: odtc.Artifact, tmp_path: Path
) -> None:
    made.save(tmp_path / "m.odtc")
    rng = np.random.default_rng(0)
    ids = rng.integers(0, half.VOCABULARY, (4, half.TOKENS))
    y = rng.standard_normal((4, half.TOKENS, half.VOCABULARY)).astype(np.float32)
    np.savez(tmp_path / "train.npz", ids=ids, y=y)
    words = ["train", str(tmp_path / "m.odtc"), "--data", str(tmp_path / "train.npz")]
    words += ["--steps", "2", "--lr", str(RATE), "--device", url]
    assert main(words) == 8
    assert main([*words, "--weights-folder", str(made._bundle.folder)]) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "sessions"


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[rpc.RPCSession]:
    with serving(folder, server=SANITIZED) as running:
        connected = odtc.connect(running)
        assert isinstance(connected, RemoteSession)
        yield connected.remote
        connected.close()


def call(session: rpc.RPCSession, name: str, *arguments):
    return session.get_function(f"odtc.weights.{name}")(*arguments)


def put(session: rpc.RPCSession, key: str, path: str = "w.bin") -> str:
    session.upload(bytearray(b"1"), "sent")
    call(session, "add", key, "sent", path)
    return str(call(session, "keep", key))


def test_four_are_kept_of_which_the_latest_were_of_use(
    session: rpc.RPCSession, folder: Path
) -> None:
    for number in range(4):
        assert put(session, f"k{number}") == f"../weights/k{number}"
        os.utime(folder / f"weights/k{number}", (number, number))
    assert str(call(session, "find", "k0", 1)) == "../weights/k0"
    # One that is asked for, and is not there, makes room for itself.
    assert not str(call(session, "find", "k4", 1))
    assert {path.name for path in (folder / "weights").iterdir()} == {"k0", "k2", "k3"}
    # The disk has no room for one, whatever goes.
    assert not str(call(session, "find", "k5", 1 << 60))
    assert not list((folder / "weights").iterdir())
    put(session, "again")
    assert put(session, "again") == "../weights/again"
    call(session, "leave", "again")
    call(session, "leave", "again")
    assert not list((folder / "weights").iterdir())


@pytest.mark.parametrize(
    "path", ["", "/etc/x", "../x", "a/../x", "a//x", "a/.", "a/..", "..", ".", "a/", "x" * 5000]
)
def test_paths_stay_in_their_folder(session: rpc.RPCSession, path: str) -> None:
    session.upload(bytearray(b"1"), "sent")
    with pytest.raises(RuntimeError, match="is not a path in the folder of weights"):
        call(session, "add", "key", "sent", path)


@pytest.mark.parametrize("key", ["", "..", "a/b", ".x", "x" * 5000])
def test_keys_are_names(session: rpc.RPCSession, key: str) -> None:
    session.upload(bytearray(b"1"), "sent")
    more = {"find": (1,), "add": ("sent", "x"), "keep": (), "leave": ()}
    for name, arguments in more.items():
        with pytest.raises(RuntimeError, match=r"not a valid (file name|key of weights)"):
            call(session, name, key, *arguments)


def test_files_are_those_that_were_sent(session: rpc.RPCSession) -> None:
    for name in ("../weights", "nothing"):
        with pytest.raises(RuntimeError, match=r"is not a valid file name|x: No such file"):
            call(session, "add", "key", name, "x")
