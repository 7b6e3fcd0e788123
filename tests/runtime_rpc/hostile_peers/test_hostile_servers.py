"""Answers of a device's server or a tracker: all that are not allowed are errors of a device."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.metrics.samples import read_samples
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker import greeting, trackers
from odtc.runtime_rpc.tracker.told import told, understood
from odtc.runtime_rpc.tracker.trackers import Registered, Tracker, tracker_at

MAGIC = wire.number(RPC_TRACKER_MAGIC)


def frame(text: bytes) -> bytes:
    return wire.number(len(text)) + text


def summary(servers: list[Any], queues: Any = None) -> bytes:
    return wire.frame([0, {"server_info": servers, "queue_info": queues or {}}])


@contextmanager
def saying(*parts: bytes, every: float = 0.0) -> Iterator[tuple[str, int]]:
    """A server that says this to each who connects, whatever it is asked."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        for part in parts:
                            connection.sendall(part)
                            over.wait(every)
                        connection.settimeout(10)
                        while connection.recv(4096):
                            pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(20)


@contextmanager
def asked(*parts: bytes) -> Iterator[Tracker]:
    """A tracker that says this."""
    with saying(*parts) as at, tracker_at(at, 5, "here") as tracker:
        yield tracker


ANSWERS = {
    "a huge length": (wire.number((1 << 31) - 1), "a message of 2147483647 bytes"),
    "a negative length": (wire.number(-1), "a message of -1 bytes"),
    "deep lists": (frame(b"[" * 60_000), "nests deeper than 32"),
    "deep objects": (frame(b'{"a":' * 12_000), "nests deeper than 32"),
    "other bytes": (frame(b"\xff\xfe"), "can't decode"),
    "no JSON": (frame(b"hello"), "Expecting value"),
}


@pytest.mark.parametrize(
    ("said", "why"),
    [*ANSWERS.values(), (frame(b"[]"), "an answer that is no object")],
    ids=[*ANSWERS, "no object"],
)
def test_a_status_that_is_none(said: bytes, why: str) -> None:
    with saying(said) as at, pytest.raises(DeviceError) as caught:
        greeting.status(at, 5, "here")
    assert caught.value.what.startswith("what answers there is not the server of a device")
    assert why in caught.value.what
    assert caught.value.hint


def test_a_server_that_refuses_says_why() -> None:
    with saying(wire.refusal("it is full " + "x" * 1000)) as at, pytest.raises(DeviceError) as it:
        greeting.status(at, 5, "here")
    assert it.value.what.startswith("the server refuses: it is full xxx")
    assert len(it.value.what) < 300


def test_an_answer_byte_by_byte_gets_no_more_time() -> None:
    began = time.monotonic()
    with (
        saying(wire.number(1000), *[b" "] * 300, every=0.1) as at,
        pytest.raises(DeviceError, match="does not answer within 1 s"),
    ):
        greeting.status(at, 1, "here")
    assert time.monotonic() - began < 20


def test_a_version_of_any_length_is_named_shortly() -> None:
    with pytest.raises(DeviceError) as caught:
        greeting.check_versions({"tvm": "x" * 60_000, "abi": [["y" * 60_000]]}, "here")
    assert len(caught.value.what) < 1000


BEYOND = {
    **ANSWERS,
    "no pair": (wire.frame(5), "TypeError"),
    "three": (wire.frame([1, 2, 3]), "ValueError"),
    "no summary": (wire.frame([0, 5]), "TypeError"),
    "no servers": (wire.frame([0, {}]), "KeyError"),
    "servers that are none": (wire.frame([0, {"server_info": 5, "queue_info": {}}]), "TypeError"),
    "queues that are none": (wire.frame([0, {"server_info": [], "queue_info": 5}]), "TypeError"),
    "a megabyte and more": (wire.number((1 << 20) + 1), "a message of 1048577 bytes"),
}


@pytest.mark.parametrize(("said", "why"), BEYOND.values(), ids=BEYOND)
def test_a_summary_that_is_none(said: bytes, why: str) -> None:
    with asked(MAGIC, said) as tracker, pytest.raises(DeviceError) as caught:
        tracker.devices()
    assert caught.value.what.startswith("what the tracker says cannot be understood: ")
    assert why in caught.value.what


def test_what_has_no_address_is_no_device() -> None:
    """A client of a tracker can register anything: others still find their devices."""
    good = [{"key": "server:pixel", "addr": ["127.0.0.1", port]} for port in (9, "10")]
    bad: list[Any] = [
        {"key": 5, "addr": ["127.0.0.1", 9]},
        {"key": "server:a", "addr": ["127.0.0.1", "nine"]},
        {"key": "server:b", "addr": ["127.0.0.1", 1 << 20]},
        {"key": "server:c", "addr": [None, 9]},
        {"key": "server:d", "addr": "here"},
        {"key": "server:e"},
        5,
        [],
    ]
    said = summary([*bad, *good], {"pixel": {"free": 1, "pending": 0}})
    with asked(MAGIC, said) as tracker:
        assert tracker.devices() == [
            Registered("pixel", (("127.0.0.1", 9), ("127.0.0.1", 10)), 1, 0)
        ]


@pytest.mark.parametrize(
    "offer",
    [5, [0], [0, 5], [0, [1, 2, 3]], [0, ["h", "x", "m"]], [0, ["h", 0, "m"]], [0, ["h", 9, 5]]],
)
def test_an_offer_that_is_none(offer: Any) -> None:
    known = summary([{"key": "server:pixel", "addr": ["127.0.0.1", 9]}])
    with (
        asked(MAGIC, known, wire.frame(offer)) as tracker,
        pytest.raises(DeviceError, match="what the tracker says cannot be understood"),
    ):
        tracker.request("pixel", 5)


def test_no_end_of_keys_makes_no_end_of_a_message() -> None:
    servers = [{"key": f"server:{n:05}{'x' * 90}", "addr": ["h", 9]} for n in range(2000)]
    with asked(MAGIC, summary(servers)) as tracker, pytest.raises(DeviceError) as caught:
        tracker.request("pixel", 5)
    assert "no device 'pixel' is registered" in caught.value.what
    assert len(caught.value.what) < 2000


@pytest.mark.parametrize("said", [wire.number(7), MAGIC[:3]])
def test_what_is_no_tracker(said: bytes) -> None:
    with saying(said) as at, pytest.raises(DeviceError, match="no RPC tracker answers"):
        tracker_at(at, 0.5, "here").__enter__()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "5", "[]", "null", "{"])
def test_a_text_of_a_session_that_is_no_object(text: str) -> None:
    with pytest.raises(DeviceError, match="what the device says cannot be understood"):
        told(text, "here")


@pytest.mark.parametrize(
    "data", [{}, {"series": 5, "probes": {}}, {"series": {"a": {}}}, {"series": {}, "probes": 5}]
)
def test_samples_of_another_form(data: dict[str, Any]) -> None:
    why = "what the device says cannot be understood"
    with pytest.raises(DeviceError, match=why), understood("the device", "here"):
        read_samples(json.dumps(data))


def test_what_is_no_matter_of_understanding_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="gone"), understood("the device", "here"):
        raise OSError("gone")


def test_the_numbers_of_a_trackers_protocol_are_those_of_tvm() -> None:
    assert trackers.TRACKER_MAGIC == RPC_TRACKER_MAGIC
    found = (trackers.STOP, trackers.REQUEST, trackers.SUMMARY)
    assert found == (TrackerCode.STOP, TrackerCode.REQUEST, TrackerCode.SUMMARY)
