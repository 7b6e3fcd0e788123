"""The server at a hostile tracker: the worst result is that the connection is lost."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tvm.rpc.base import RPC_TRACKER_MAGIC

from odtc.runtime_rpc.server.net import accepting, files, registration, wire
from odtc.runtime_rpc.server.net.registration import Registration

MAGIC = wire.number(RPC_TRACKER_MAGIC)


@contextmanager
def at_tracker() -> Iterator[tuple[Registration, socket.socket]]:
    """A registration, and the tracker's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as tracker:
        one = Registration(f"tcp:{tracker.getsockname()[1]}", "key", ("127.0.0.1", 1))
        one.offer()
        one.tick()
        there, _ = tracker.accept()
        with there:
            there.settimeout(5)
            yield one, there
        if one.socket:
            one.socket.close()


def turns_until(one: Registration, done: Callable[[], bool]) -> None:
    """Lets it take what has come, as the server's loop does."""
    loop, end = files.Files(), time.monotonic() + 20
    one.closes = loop.forget
    while not done():
        assert time.monotonic() < end
        assert one.socket
        loop.want(one.socket, one.wants)
        for events in loop.wait(0.05).values():
            one.take_turn(events)
    one.closes = lambda _: None
    loop.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (wire.number(7), "it is no tracker"),
        (MAGIC + wire.frame(0) * 50, "empty deque"),
        (MAGIC + wire.number((1 << 31) - 1), "a message of 2147483647 bytes"),
        (MAGIC + wire.number(60_000) + b"[" * 60_000, "nests deeper than 32"),
        (MAGIC + wire.number(60_000) + b'{"a":' * 12_000, "nests deeper than 32"),
        (MAGIC + wire.number(2) + b"\xff\xfe", "can't decode"),
    ],
)
def test_what_a_tracker_may_not_say(
    said: bytes, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with at_tracker() as (one, there):
        there.sendall(said)
        turns_until(one, lambda: one.socket is None)
    assert why in capfd.readouterr().err


def test_keys_that_are_no_list(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registration, "_ASK_SECONDS", 0.0)
    with at_tracker() as (one, there):
        there.sendall(MAGIC + wire.frame(0) * 2)
        turns_until(one, lambda: not one._replies and one._greeted)
        one.tick()
        there.sendall(wire.frame(5))
        turns_until(one, lambda: one.socket is None)
    assert "keys that are no list" in capfd.readouterr().err


def test_a_client_that_comes_late_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device was offered to others meanwhile, which ends with the tracker's connection."""
    monkeypatch.setattr(registration, "_ASK_SECONDS", 0.0)
    monkeypatch.setattr(registration, "_UNUSED_SECONDS", 0.0)
    with at_tracker() as (one, there):
        there.sendall(MAGIC + wire.frame(0) * 2)
        turns_until(one, lambda: not one._replies and one._greeted)
        first = one.match
        one.tick()
        there.sendall(wire.frame([]))
        turns_until(one, lambda: one.match != first)
        assert first
        assert one.match
        assert one.knows(first)
        assert one.knows(one.match)
        assert not one.knows("key:guess")
        one.withdraw(first)
        assert one.socket is None
        assert not one.knows(first)
        one.offer()
        assert not one.knows(first)


def test_a_tracker_that_reads_nothing_is_not_waited_for() -> None:
    with at_tracker() as (one, there):
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        there.sendall(MAGIC)
        turns_until(one, lambda: one._greeted)
        assert one.socket
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        began = time.monotonic()
        while not one.wants & files.WRITE:
            one.offer()
        assert time.monotonic() - began < 30
        assert one.socket


def test_a_tracker_that_drips_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of an answer that never ends are none."""
    monkeypatch.setattr(registration, "_SILENT_SECONDS", 0.5)
    with at_tracker() as (one, there):
        there.sendall(MAGIC)
        turns_until(one, lambda: one._greeted)
        there.sendall(wire.number(1000))
        end = time.monotonic() + 20
        while one.socket:
            assert time.monotonic() < end
            there.sendall(b" ")
            time.sleep(0.05)
            one.tick()
            if one.socket:
                one.take_turn(files.READ)


def test_a_tracker_without_room_is_not_waited_for() -> None:
    """Its queue of connections is full: over TCP, a connection comes about much later or never."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        at = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(at)
        registered = Registration(f"tcp:{at[1]}", "key", at)
        began = time.monotonic()
        registered.tick()
        assert time.monotonic() - began < 10
        for one in [*waiting, registered.socket]:
            if one:
                one.close()


def test_whose_a_local_connection_is() -> None:
    name = f"odtc-test-{time.monotonic_ns()}"
    with wire.listen(f"abstract:{name}") as listener, wire.connect(f"abstract:{name}"):
        connection, address = listener.accept()
        with connection:
            assert accepting.is_trusted(connection)
            assert accepting.owner(connection, address) == f"user {os.getuid()}"
