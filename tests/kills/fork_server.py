"""Runs command lines in processes that are forked from one which has imported all that they need.

A start takes seconds, nearly all of them imports; a test that starts hundreds has no time for that.
`python -m tests.kills.fork_server` reads command lines from stdin, as JSON, and answers each with
the number of the process; the line after it with the exit code, when that has ended. Until then
no other process gets the number.
"""

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from odtc.core.process.without_torch import leave_out_torch


class ForkServer:
    """The server, as a test sees it.

    Args:
        folder: that the command lines run in; what they print goes to `log` of its parent.
        temporary: their folder for temporary files.
        module: whose `main` they are for, without arguments.
        imports: modules that it imports only when it runs.
        environment: variables that differ from ours.

    Attributes:
        pid: of the server itself.
        log: what the last command line has printed.
    """

    def __init__(
        self,
        folder: Path,
        temporary: Path,
        module: str,
        imports: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        root = str(Path(__file__).parents[2])
        self.log = folder.parent / f"{folder.name}.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.log), module, *imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            # A crash is to say where it was.
            env=os.environ
            | {"PYTHONPATH": root, "TMPDIR": str(temporary), "PYTHONFAULTHANDLER": "1"}
            | dict(environment or {}),
        )
        self._running: int | None = None
        self.pid = self._process.pid
        self._read()

    def start(self, argv: Sequence[str]) -> int:
        """Starts a command line; the number of its process."""
        self._write(json.dumps(argv))
        self._running = pid = int(self._read())
        return pid

    def kill(self, number: int) -> None:
        """Sends it a signal; one that has ended, and was not waited for, is still there."""
        assert self._running
        os.kill(self._running, number)

    def wait(self) -> int:
        """Waits for its end; the exit code, or a signal's number below zero."""
        self._write("")
        self._running = None
        return self._read()

    def close(self) -> None:
        """Ends the server, and what it runs."""
        if self._running:
            self.kill(signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    def _write(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


def has_ended(pid: int) -> bool:
    """Whether a process has, even if it has not been waited for yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def _serve(log: str, module: str, *imports: str) -> None:
    leave_out_torch()
    # Nothing is run: threads would not be in a fork.
    main = importlib.import_module(module).main
    for name in imports:
        importlib.import_module(name)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        # Here, so that the output of the last one is not read again.
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        pid = os.fork()
        if not pid:
            _run(main, json.loads(line), file)
        os.close(file)
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(main: Any, argv: list[str], log: int) -> None:
    """The end of a forked process, as that of any other."""
    code = 70
    try:
        for number in (1, 2):
            os.dup2(log, number)
        sys.argv[1:] = argv
        code = main() or 0
        sys.stdout.flush()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
