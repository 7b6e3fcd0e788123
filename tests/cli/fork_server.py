"""Runs command lines of odtc in processes that are forked from one which has imported all of it.

A start takes seconds, nearly all of them imports; a test that starts hundreds has no time for that.
`python -m tests.cli.fork_server` reads command lines from stdin, as JSON, and answers each with the
number of the process; the line behind it with the exit code, when that has ended. Until then nobody
else gets the number.
"""

import atexit
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from odtc.cli.main import main


class ForkServer:
    """The server, as a test sees it.

    Args:
        folder: that the command lines run in; what they print goes to `log` of its parent.
        temporary: their folder for temporary files.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        root = str(Path(__file__).parents[2])
        self.log = folder.parent / "log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.fork_server", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": root, "TMPDIR": str(temporary)},
        )
        self._read()

    def start(self, argv: list[str]) -> int:
        """Starts a command line; the number of its process."""
        self._write(json.dumps(argv))
        return self._read()

    def wait(self) -> int:
        """Waits for its end; the exit code, or a signal's number below zero."""
        self._write("")
        return self._read()

    def close(self) -> None:
        """Ends the server."""
        self._process.kill()
        self._process.communicate()

    def _write(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


def _serve(log: str) -> None:
    # What `odtc train` imports when it runs. Nothing is run: threads would not be in a fork.
    import odtc.artifact
    import odtc.cli.samples
    import odtc.runtime_rpc.connect
    import odtc.runtime_rpc.trainer  # noqa: F401

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run(json.loads(line), log)
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(argv: list[str], log: str) -> None:
    """The end of a forked process, as that of any other."""
    code = 70
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = main(argv)
        sys.stdout.flush()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
