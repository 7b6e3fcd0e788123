"""odtc-device and TVM's own client: tensors, files, errors, and what no client should send."""

import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import rpc
from tvm.rpc.base import RPC_MAGIC

from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.trackers import tracker_at
from tests.runtime_rpc.own_server import NATIVE, SANITIZED, SERVERS, serving

VERSION = b"0.8.0"
INIT, RETURN, EXCEPTION, COPY_FROM, COPY_TO, COPY_ACK = 2, 4, 5, 6, 7, 8
GET_FUNCTION, GET_ATTRIBUTE, ALLOCATE = 9, 12, 13
# Whether there is a CPU.
EXISTS = struct.pack("<iiiiiq", 2, 6, 1, 0, 1, 0)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "sessions", server=NATIVE) as running:
        yield running


def offered(url: str) -> tuple[tuple[str, int], str]:
    """Address and key of a session that the tracker gives."""
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    with tracker_at((host, int(port)), 5, url) as tracker:
        offer = tracker.request("here", 30)
    return offer.address, offer.match


@pytest.fixture
def session(url: str) -> Iterator[rpc.RPCSession]:
    """TVM's own, with nothing of odtc's between."""
    (host, port), match = offered(url)
    found = rpc.connect(host, port, match)
    yield found
    found._sess.get_function("CloseRPCConnection")()


def test_a_stock_tracker_lists_it(url: str) -> None:
    host, port = url.removeprefix("rpc://").removesuffix("/here").split(":")
    assert "server:here" in rpc.connect_tracker(host, int(port)).text_summary()


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_tensors_come_back(session: rpc.RPCSession, dtype: str) -> None:
    array = np.random.default_rng(0).integers(0, 2, (3, 5, 7)).astype(dtype)
    device = session.cpu()
    assert device.exist
    there = tvm.runtime.tensor(array, device)
    other = tvm.runtime.empty(array.shape, dtype, device)
    there.copyto(other)
    np.testing.assert_array_equal(other.numpy(), array)


def test_there_is_no_other_device(session: rpc.RPCSession) -> None:
    assert not session.device("opencl").exist
    with pytest.raises(RuntimeError, match="not a device of type 4"):
        tvm.runtime.empty((1,), "float32", session.device("opencl"))


def test_memory_that_is_not_there_is_refused(session: rpc.RPCSession) -> None:
    with pytest.raises(RuntimeError, match="no memory for a tensor of 4611686018427387904 bytes"):
        tvm.runtime.empty((1 << 60,), "float32", session.cpu())
    assert session.cpu().exist


def test_files_go_and_come_back(session: rpc.RPCSession) -> None:
    content = bytes(range(256)) * 1000
    session.upload(bytearray(content), "some.file")
    assert session.download("some.file") == content
    session.get_function("odtc.append")("some.file", bytearray(b"more"))
    assert session.download("some.file") == content + b"more"
    session.upload(bytearray(b"new"), "some.file")
    assert session.download("some.file") == b"new"
    session.remove("some.file")
    with pytest.raises(RuntimeError, match="No such file"):
        session.download("some.file")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", ".", "", ".x"])
def test_names_are_of_the_sessions_folder(session: rpc.RPCSession, name: str) -> None:
    for call in (
        lambda: session.download(name),
        lambda: session.upload(bytearray(b"1"), name or "/"),
        lambda: session.remove(name),
        lambda: session.get_function("tvm.rpc.server.workpath")(name),
        lambda: session.get_function("odtc.program.open")(name, "b", "c", "", 0, ""),
    ):
        with pytest.raises(RuntimeError, match="not a valid file name in a session"):
            call()


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("odtc.program.state", (7,), "7 is not a handle of that kind"),
        ("odtc.program.state", (-1,), "-1 is not a handle of that kind"),
        ("odtc.program.state", ("x",), "argument 0 is to be an integer"),
        ("odtc.program.state", (), "a call of 1 arguments has 0"),
        ("odtc.program.state", (1, 2), "a call of 1 arguments has 2"),
        ("odtc.program.open", ("a", "b", "c", "", 0, ""), "odtc 2: a cannot be read: No such file"),
        ("odtc.record.start", (0.0, "/", ""), "a period is from 0.001 to 60 seconds"),
        ("odtc.record.stop", (3,), "3 is not a handle of that kind"),
    ],
)
def test_a_wrong_call_says_why(session: rpc.RPCSession, name: str, arguments, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        session.get_function(name)(*arguments)
    assert session.cpu().exist


def test_an_unknown_function_is_none(session: rpc.RPCSession) -> None:
    with pytest.raises(AttributeError, match=r"has no function 'runtime\.config_threadpool'"):
        session.get_function("runtime.config_threadpool")


class Raw:
    """A session byte by byte."""

    def __init__(self, url: str) -> None:
        address, match = offered(url)
        self.socket = socket.create_connection(address, 20)
        key = f"client:{match}".encode()
        self.socket.sendall(wire.number(RPC_MAGIC) + wire.number(len(key)) + key)
        assert self._take(4) == wire.number(RPC_MAGIC)
        self._take(int.from_bytes(self._take(4), "little"))

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _take(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise EOFError("the session has ended")
        return data

    def ask(self, code: int, rest: bytes) -> tuple[int, bytes]:
        """Code and content of the answer to a packet."""
        self.socket.sendall(struct.pack("<Qi", 4 + len(rest), code) + rest)
        count = int.from_bytes(self._take(8), "little")
        answer = self._take(count)
        return int.from_bytes(answer[:4], "little"), answer[4:]

    def begin(self, version: bytes = VERSION) -> tuple[int, bytes]:
        return self.ask(INIT, struct.pack("<Q", len(version)) + version + struct.pack("<i", 0))


def tensor(memory: int, shape: tuple[int, ...], offset: int = 0, device: int = 1) -> bytes:
    head = struct.pack("<Qiii", memory, device, 0, len(shape)) + struct.pack("<BBH", 2, 32, 1)
    return head + struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<Q", offset)


@pytest.mark.parametrize("version", [b"0.7.9", b"", b"0.8.0 and more", b"9" * 1000])
def test_another_version_is_refused(url: str, version: bytes) -> None:
    with Raw(url) as raw:
        code, said = raw.begin(version)
        assert code == EXCEPTION
        assert b"speaks version 0.8.0 of TVM's RPC protocol" in said
        assert raw.ask(GET_FUNCTION, struct.pack("<i", 0))[0] == EXCEPTION


def test_nothing_goes_before_the_version(url: str) -> None:
    with Raw(url) as raw:
        code, said = raw.ask(ALLOCATE, struct.pack("<i", 0))
        assert (code, b"begins with the version" in said) == (EXCEPTION, True)
        assert raw.begin()[0] == RETURN


@pytest.mark.parametrize(
    ("memory", "offset", "count"),
    [(1, 0, 17), (1, 17, 0), (1, 1, 16), (1, (1 << 64) - 1, 2), (0, 0, 1), (2, 0, 1)],
)
@pytest.mark.parametrize("code", [COPY_FROM, COPY_TO])
def test_a_client_reads_and_writes_its_own_memory(
    url: str, code: int, memory: int, offset: int, count: int
) -> None:
    with Raw(url) as raw:
        raw.begin()
        values = struct.pack("<iiii", 4, 6, 1, 0) + struct.pack("<iqiqi", 1, 16, 1, 64, 5)
        assert raw.ask(ALLOCATE, values + struct.pack("<BBHi", 2, 32, 1, 0))[0] == RETURN
        rest = tensor(memory, (4,), offset) + struct.pack("<Q", count)
        answer, said = raw.ask(code, rest + (b"x" * count if code == COPY_TO else b""))
        assert answer == EXCEPTION
        assert b"are not in a memory of 16" in said or b"not a handle of that kind" in said


def test_a_damaged_packet_harms_its_own_session_alone(tmp_path: Path) -> None:
    """Random packets, and edits of sound ones: each ends with an answer or with the session."""
    log = tmp_path / "log"
    with serving(tmp_path / "sessions", log=log, server=SANITIZED) as url:
        ended = sum(ends_with(url, *packet) for packet in damaged(random.Random(1), 40))
        assert ended < 20
        with Raw(url) as raw:
            assert raw.begin()[0] == RETURN
    # No session was ended by its own fault, and the sanitizers have said nothing.
    assert "its process" not in log.read_text()
    assert "ERROR" not in log.read_text()


def damaged(made: random.Random, count: int) -> Iterator[tuple[int, bytes]]:
    sound = struct.pack("<iiiQ", 1, 65, 65, 18) + b"odtc.device_info\0\0"
    for _ in range(count):
        rest = bytearray(sound if made.random() < 0.6 else made.randbytes(made.randrange(64)))
        for _ in range(made.randrange(4)):
            if rest:
                rest[made.randrange(len(rest))] = made.choice([0, 1, 7, 8, 64, 127, 255])
        yield made.choice([0, *range(2, 24), -1, 1 << 30]), bytes(rest)


def ends_with(url: str, code: int, rest: bytes) -> bool:
    """Whether a packet ends its session; else that still answers."""
    with Raw(url) as raw:
        raw.begin()
        try:
            assert raw.ask(code, rest)[0] in (RETURN, EXCEPTION, COPY_ACK)
            assert raw.ask(GET_ATTRIBUTE, EXISTS)[0] == RETURN
        except (EOFError, ConnectionError):
            return True
    return False


def test_its_files_go_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    with serving(folder, server=NATIVE) as url:
        (host, port), match = offered(url)
        session = rpc.connect(host, port, match)
        session.upload(bytearray(b"1"), "file")
        assert [path.name for path in folder.glob("*/*")] == ["file"]
        session._sess.get_function("CloseRPCConnection")()
        with Raw(url):
            assert not list(folder.glob("*/*"))
    assert not folder.exists()


def test_an_answer_does_not_wait_for_the_network(session: rpc.RPCSession) -> None:
    """One that left in pieces would wait 40 ms for the first to be acknowledged, each time."""
    ask, took = session.get_function("odtc.core_speeds"), []
    for _ in range(30):
        began = time.monotonic()
        ask()
        took.append(time.monotonic() - began)
    assert min(took) < 0.02


@pytest.mark.parametrize("server", SERVERS)
def test_a_folder_that_holds_other_things_keeps_them(tmp_path: Path, server: str) -> None:
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    (folder / "thesis.txt").write_text("all of it")
    (folder / "odtc-session-gone").mkdir()
    (folder / "odtc-session-gone" / "file").write_text("of a server that was killed")
    with serving(folder, server=server) as url:
        assert {path.name for path in folder.iterdir()} == {"sub", "thesis.txt"}
        (host, port), match = offered(url)
        rpc.connect(host, port, match)._sess.get_function("CloseRPCConnection")()
    assert {path.name for path in folder.iterdir()} == {"sub", "thesis.txt"}
