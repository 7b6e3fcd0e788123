"""Connections are shut down on every system, whichever lists the open files of a process."""

import os
import socket

import pytest

from odtc.runtime_rpc.guards import watchdog


@pytest.mark.parametrize("lists", [watchdog._LISTS, watchdog._LISTS[1:], ()])
def test_the_connections_to_an_address_end_and_no_others(
    monkeypatch: pytest.MonkeyPatch, lists: tuple[str, ...]
) -> None:
    monkeypatch.setattr(watchdog, "_LISTS", lists)
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(one.getsockname()) as gone,
        socket.create_connection(other.getsockname()) as stays,
    ):
        os.set_blocking(other.fileno(), False)
        watchdog.shut_down(one.getsockname())
        assert gone.recv(1) == b""
        assert not os.get_blocking(other.fileno()), "others may share it"
        at_other, _ = other.accept()
        with at_other:
            at_other.sendall(b"x")
            assert stays.recv(1) == b"x"
