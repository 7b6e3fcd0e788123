"""The parent's end of a worker process, which may fail, die or hang."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odtc.comparison.case import Case, write_case
from odtc.comparison.outcome import Outcome, outcome_of
from odtc.comparison.worker import END, OUTCOME, REASON

_PROGRAM = "odtc.comparison.worker"
_THREADS = ("OMP_NUM_THREADS", "TVM_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LONGEST = 300
_LEAVING_SECONDS = 10


class WorkerError(Exception):
    """A worker gave no answer.

    Args:
        outcome: how it ended.
        reason: its last line of output.
    """

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


class Worker:
    """A process that does one task; see `worker`.

    Args:
        task: its name.
        case: of the task.
        folder: of the engine, inside of that of the case.
        engine: its name.
        limit: seconds that each answer may take.
    """

    def __init__(self, task: str, case: Case, folder: Path, engine: str, limit: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_case(case, folder)
        self._limit, self._log = limit, folder / f"{task}.log"
        self._rest = b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, task, str(folder), engine],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=case.root or None,
                env=os.environ | dict.fromkeys(_THREADS, str(case.threads)),
                # A Ctrl-C is for the parent process.
                start_new_session=True,
            )

    def ask(self, command: str = "") -> Mapping[str, Any]:
        """Sends a line, if there is one, and waits for the answer.

        Raises:
            WorkerError: there is none, or it says what went wrong.
        """
        if command:
            with contextlib.suppress(BrokenPipeError):
                self._write(command)
        answer = json.loads(self._line())
        if OUTCOME in answer:
            raise WorkerError(Outcome(answer[OUTCOME]), answer[REASON])
        return answer

    def close(self) -> None:
        """Lets it exit, or ends it."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                self._write(END)
                _stream(self._process.stdin).close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVING_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends it, with all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _stream(self._process.stdout).close()

    def _write(self, command: str) -> None:
        pipe = _stream(self._process.stdin)
        pipe.write(f"{command}\n".encode())
        pipe.flush()

    def _line(self) -> bytes:
        pipe, until = _stream(self._process.stdout), time.monotonic() + self._limit
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise WorkerError(Outcome.HUNG, f"no answer within {self._limit:g} s")
                read = os.read(pipe.fileno(), 1 << 16)
                if not read:
                    raise self._dead()
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _dead(self) -> WorkerError:
        code = self._process.wait()
        lines = self._log.read_text(errors="replace").strip().splitlines()
        last = lines[-1][:_LONGEST] if lines else "it said nothing"
        if code >= 0:
            return WorkerError(outcome_of(last), f"it ended with {code}: {last}")
        name = signal.Signals(-code).name
        known = outcome_of("\n".join(lines[-5:]))
        if code == -signal.SIGKILL:
            # Only a system that is out of memory ends it so.
            known = Outcome.MEMORY
        outcome = known if known is Outcome.MEMORY else Outcome.CRASHED
        return WorkerError(outcome, f"it died of {name}: {last}")


def done(task: str, case: Case, folder: Path, engine: str, limit: float) -> Mapping[str, Any]:
    """Runs a task that answers once and returns its answer.

    Raises:
        WorkerError: it went wrong.
    """
    worker = Worker(task, case, folder, engine, limit)
    try:
        return worker.ask()
    finally:
        worker.close()


def _stream(pipe: Any) -> Any:
    assert pipe is not None
    return pipe
