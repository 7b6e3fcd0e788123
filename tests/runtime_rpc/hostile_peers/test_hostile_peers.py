"""Peers that mean the server harm, over loopback: each is sent away, and everybody else is served.

The server is real, in a process of its own; so are the thousand peers of the long tests.
"""

import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tvm.rpc.base import RPC_MAGIC

import odtc
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.server.net import bounds, wire
from odtc.runtime_rpc.sessions.remote import RemoteSession
from odtc.runtime_rpc.tracker.greeting import greet
from tests.runtime_rpc.hostile_peers import hostile
from tests.runtime_rpc.hostile_peers.hostile import ASKED, GREETED
from tests.runtime_rpc.own_server import NATIVE, SERVERS, address, serving
from tests.timed import Figures, figures

# Sessions end, and conversations twice as late, where nothing came for so long.
IDLE = 3.0
PEERS = 1000
NO_QUESTION = "a question that is no object of texts"
# The limit in docs/security.md for a status in such a crowd, and one that no machine may exceed.
STATUS_SECONDS, HUNG_SECONDS = 1.0, 25.0

At = tuple[str, int]


@pytest.fixture(scope="module", params=SERVERS)
def server(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def log(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / f"{server}.log"


@pytest.fixture(scope="module")
def url(server: str, tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, IDLE, log, server) as running:
        yield running


@pytest.fixture
def at(url: str) -> Iterator[At]:
    """The server's address; whatever a test does to it, the same process serves after it."""
    where = address(url)
    before = status(where)
    yield where
    after = status(where)
    assert after["server_pid"] == before["server_pid"]
    session = odtc.connect(url, Limits(beat=0.2, request=10))
    assert session.info()["emulated"] is False
    session.close()


def test_a_crowd_speaks_as_tvm_does() -> None:
    assert hostile.RPC_MAGIC == RPC_MAGIC


def status(at: At) -> dict[str, Any]:
    with greet(at, 30) as connection:
        return wire.ask(connection, {"ask": "status"})


def rest(connection: socket.socket, seconds: float = 20) -> bytes:
    """All that comes until the server closes the connection."""
    connection.settimeout(seconds)
    data = b""
    try:
        while part := connection.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    return data


def why(data: bytes) -> str:
    """The reason in the last message."""
    received, told = wire.Received(), {}
    received.add(data)
    while (text := received.text()) is not None:
        told = json.loads(text)
    return told["refused"]


def frame(text: bytes) -> bytes:
    return wire.number(len(text)) + text


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (wire.number((1 << 31) - 1), "a message of 2147483647 bytes, where 1024 are the most"),
        (wire.number(-1), "a message of -1 bytes"),
        (frame(b"[" * 60_000), "a message of 60000 bytes"),
        (frame(b"[" * 1000), "nests deeper than 32"),
        (frame(b'{"a":' * 200), "nests deeper than 32"),
        (frame(b"[" * 33 + b"]" * 33), "nests deeper than 32"),
        (frame(b"[" * 32 + b"]" * 32), "a question that is no object"),
        (frame(b'"' + b"[" * 500 + b'"'), "a question that is no object"),
        (frame(b'["' + b'\\"' * 400), "Unterminated string"),
        (frame(b"\xff\xfe[\0"), "can't decode"),
        (frame(b"1" * 1024), "no object"),
        (frame(b""), "Expecting value"),
    ],
)
def test_what_is_no_question_is_refused(at: At, server: str, said: bytes, reason: str) -> None:
    with socket.create_connection(at, 5) as peer:
        peer.sendall(GREETED + said)
        # odtc-device reads questions alone, and no other JSON.
        no_question = server == NATIVE and not reason.startswith("a message of")
        assert (NO_QUESTION if no_question else reason) in why(rest(peer))


@pytest.mark.parametrize("option", ["nan", "inf", "-1"])
def test_a_session_of_no_time_is_refused(at: At, option: str) -> None:
    with socket.create_connection(at, 5) as peer:
        peer.sendall(wire.number(RPC_MAGIC) + frame(f"client:here -timeout={option}".encode()))
        assert f"a session of {option} s" in why(rest(peer))


def test_brackets_in_text_are_no_depth(at: At) -> None:
    with greet(at, 5) as peer:
        assert wire.ask(peer, {"ask": "status", "why": '"[{\\' * 50})["busy"] is False


def test_a_peer_that_says_more_while_it_is_refused_reads_why(at: At) -> None:
    with socket.create_connection(at, 5) as peer:
        peer.sendall(GREETED + frame(b"[" * 200) + b"x" * 200_000)
        assert re.search(f"nests deeper|{NO_QUESTION}", why(rest(peer)))


def test_the_host_says_why_it_was_refused(at: At) -> None:
    with greet(at, 5) as peer, pytest.raises(wire.RefusedError, match="a message of 2011 bytes"):
        wire.ask(peer, {"ask": "x" * 2000})


def test_a_conversation_has_an_end(at: At) -> None:
    """One that says nothing, and one of whose question there is no end."""
    began = time.monotonic()
    with greet(at, 5) as silent, greet(at, 5) as slow:
        slow.sendall(wire.number(1000))
        for _ in range(10):
            time.sleep(IDLE / 10)
            slow.sendall(b" ")
        for peer in (silent, slow):
            assert why(rest(peer)) == f"no whole question came for {2 * IDLE:g} s"
    assert time.monotonic() - began >= 2 * IDLE


def test_who_asks_is_not_idle(at: At) -> None:
    end = time.monotonic() + 3 * IDLE
    with greet(at, 5) as peer:
        while time.monotonic() < end:
            assert wire.ask(peer, {"ask": "status"})["busy"] is False
            time.sleep(IDLE / 3)


def test_a_greeting_has_its_time(at: At) -> None:
    """Whatever the outcome: all of them wait at once."""
    begun = (b"", GREETED[:3], wire.number(RPC_MAGIC) + wire.number(100))
    with ExitStack() as stack:
        peers = [stack.enter_context(socket.create_connection(at, 5)) for _ in begun]
        for peer, said in zip(peers, begun, strict=True):
            peer.sendall(said)
        for peer in peers:
            assert why(rest(peer)) == "no greeting came within 10 s"


def test_a_reader_that_does_not_read_takes_nobodys_time(at: At) -> None:
    """It is read no more, waited for, and sent away; what waits for it is little."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(0.5)
        slow.connect(at)
        slow.sendall(GREETED)
        with pytest.raises(TimeoutError):
            slow.sendall(ASKED * 1_000_000)
        took = []
        while not is_cut(slow):
            assert len(took) < 1000
            began = time.monotonic()
            status(at)
            took.append(time.monotonic() - began)
            time.sleep(0.05)
        assert max(took) < HUNG_SECONDS


def is_cut(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP | select.POLLHUP)
    return bool(poll.poll(0))


def test_questions_in_a_row_are_answered_in_turn(at: At) -> None:
    with greet(at, 5) as peer:
        peer.sendall(ASKED * 100)
        received, answers = wire.Received(), []
        while len(answers) < 100:
            received.add(peer.recv(4096))
            while (text := received.text()) is not None:
                answers.append(json.loads(text))
        assert all("server_pid" in answer for answer in answers)


@contextmanager
def many(at: At, sources: list[str]) -> Iterator[list[socket.socket]]:
    """Connections from these addresses, in this order."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as stack:
            yield [
                stack.enter_context(socket.create_connection(at, 10, (source, 0)))
                for source in sources
            ]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        (["127.0.0.2"], f"{bounds.PEERS_OF_ONE} connections of one peer are the most"),
        (["127.0.0.2", "127.0.0.3"], f"{bounds.PEERS} connections are the most"),
    ],
)
def test_who_waited_longest_goes_when_there_are_too_many(
    server: str, tmp_path: Path, sources: list[str], reason: str
) -> None:
    """And no newcomer, nor the client of a session.

    Its signs of life wait behind all of them, for longer than other sessions of this file may.
    """
    with serving(tmp_path / "sessions", server=server) as running:
        at = address(running)
        session = odtc.connect(running, Limits(beat=0.2, request=10))
        assert isinstance(session, RemoteSession)
        assert session.watchdog
        watch = greet(at, 10)
        key = session.watchdog._match
        assert wire.ask(watch, {"ask": "beat", "session": key})["alive"]
        each = (bounds.PEERS + 200) // len(sources)
        with many(at, [source for source in sources for _ in range(each)]) as peers:
            assert why(rest(peers[0])) == reason
            assert status(at)["busy"] is True
            assert wire.ask(watch, {"ask": "beat", "session": key})["alive"]
            assert session.info()["machine"]
            peers[-1].sendall(GREETED)
            assert wire.ask(peers[-1], {"ask": "status"})["busy"] is True
        watch.close()
        session.close()


def test_a_server_without_files_takes_them_back(server: str, tmp_path: Path) -> None:
    """Its limit falls while it runs: accepting fails with EMFILE, and the oldest peer goes."""
    with serving(tmp_path / "sessions", server=server) as running:
        where = address(running)
        pid = status(where)["server_pid"]
        files = len(os.listdir(f"/proc/{pid}/fd"))
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 10, limits[1]))
        with many(where, ["127.0.0.1"] * 30) as peers:
            assert "no file is left" in why(rest(peers[0]))
            assert status(where)["server_pid"] == pid
            # No peer is dropped for one that is not there.
            assert sum(not is_cut(peer) for peer in peers) >= 9
            peers[-1].sendall(GREETED)
            for _ in range(3):
                assert wire.ask(peers[-1], {"ask": "status"})["server_pid"] == pid
        # Where no peer has a file to give, it waits and does not spin.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with greet(where, 30) as peer:
            time.sleep(1)
            before = seconds_of(pid)
            time.sleep(2)
            assert seconds_of(pid) - before < 1
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert wire.ask(peer, {"ask": "status"})["server_pid"] == pid


def seconds_of(pid: int) -> float:
    """Returns the processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def withstands(
    url: str, at: At, log: Path, seconds: float, report: Callable[[str], None]
) -> Figures:
    """A thousand hostile peers, for so long: a session works. Seconds of each status."""
    before = status(at)["server_pid"]
    lines = len(log.read_text().splitlines())
    command = [sys.executable, "-m", hostile.__name__, *map(str, (*at, PEERS, seconds))]
    took: list[float] = []
    sessions = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as crowd:
        assert crowd.stdout
        assert crowd.stdout.readline().strip() == hostile.CONNECTED
        kept = odtc.connect(url, Limits(beat=0.2, silence=60, connect=30, request=30))
        end = time.monotonic() + seconds / 2
        while crowd.poll() is None:
            began = time.monotonic()
            assert status(at)["server_pid"] == before
            took.append(time.monotonic() - began)
            if took[-1] > STATUS_SECONDS:
                report(f"a status took {took[-1]:.3f} s")
            if kept and time.monotonic() > end:
                # The one of the first half lives; in the second half others come and go.
                assert kept.info()["machine"]
                kept.close()
                kept = None
            if not kept:
                session = odtc.connect(url, Limits(beat=0.2, silence=60, connect=30, request=30))
                assert session.info()["machine"]
                session.close()
                sessions += 1
            time.sleep(0.05)
        told = json.loads(crowd.stdout.read())
    took.sort()
    found = figures(took)
    report(
        f"{told}; {sessions} sessions; status {len(took)} times, median {found.median:.4f} s, "
        f"99 % {took[int(0.99 * len(took))]:.4f} s, longest {took[-1]:.4f} s"
    )
    assert told["at once"] > told["peers"] / 3
    assert set(told["closed"]) >= {"a huge length", "deep lists", "deep objects", "garbage"}
    assert sessions
    assert took[-1] < HUNG_SECONDS
    said = len(log.read_text().splitlines()) - lines
    assert said < (bounds.LINES_A_MINUTE + 2) * (seconds / 60 + 2) + 3 * sessions
    return found


def test_a_thousand_hostile_peers(
    url: str, at: At, log: Path, record_property: Callable[[str, object], None]
) -> None:
    withstands(url, at, log, 10, lambda text: record_property("crowd", text))


@pytest.mark.timed
def test_a_status_is_quick_among_a_thousand_hostile_peers(url: str, at: At, log: Path) -> None:
    took = withstands(url, at, log, 10, print)
    assert took.median < STATUS_SECONDS, took


@pytest.mark.slow
def test_a_thousand_hostile_peers_for_long(url: str, at: At, log: Path) -> None:
    """`ODTC_SOAK_SECONDS` says for how long."""
    seconds = float(os.environ.get("ODTC_SOAK_SECONDS", "600"))
    memory = resident(pid := status(at)["server_pid"])
    assert withstands(url, at, log, seconds, print).median < STATUS_SECONDS
    files = len(os.listdir(f"/proc/{pid}/fd"))
    grown = resident(pid) - memory
    print(f"{files} files are open behind it, and {grown} KiB of memory were added")
    assert grown < 64 * 1024


def resident(pid: int) -> int:
    """KiB of a process that are in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
