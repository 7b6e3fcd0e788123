"""Who a server answers on an abstract name, which every app of a phone can reach."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from odtc.runtime_rpc.server.net import wire
from tests.needs import needs
from tests.runtime_rpc.own_server import COMMANDS, SERVERS, START_SECONDS, words_of

SHELL, APP = 2000, 10_123

pytestmark = needs(os.geteuid() == 0, reason="other users are tried by root")


@pytest.fixture(params=SERVERS)
def name(request, tmp_path: Path) -> Iterator[str]:
    """An abstract name at which a server listens."""
    found = f"odtc-test-{secrets.token_hex(4)}"
    words = words_of(1, tmp_path / "sessions")
    words[words.index("tcp:0")] = f"abstract:{found}"
    with ExitStack() as stack:
        command = COMMANDS[request.param](stack, [*words, "--port", "1"])
        server = stack.enter_context(
            subprocess.Popen([*command, "--until-closed"], stdin=subprocess.PIPE)
        )
        assert server.stdin
        stack.enter_context(server.stdin)
        deadline = time.monotonic() + START_SECONDS
        while not is_answered(found) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield found


def is_answered(name: str) -> bool:
    """Whether this process is told a status."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(f"\0{name}")
        connection.sendall(wire.number(wire.GREETING))
        return "server_pid" in wire.ask(connection, {"ask": "status"})
    return False


def is_answered_as(user: int, name: str) -> bool:
    """The same of a process of another user."""
    child = os.fork()
    if not child:
        answered = False
        try:
            os.setuid(user)
            answered = is_answered(name)
        finally:
            os._exit(int(answered))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_apps_are_not_answered(name: str) -> None:
    assert [is_answered_as(user, name) for user in (0, SHELL, APP)] == [True, True, False]
    assert is_answered(name)
