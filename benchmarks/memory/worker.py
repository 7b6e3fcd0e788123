"""One task in a process of its own: `python -m benchmarks.memory.worker TASK FOLDER`.

The folder holds the case; what the task returns goes to a file there, as JSON. A process that dies
is a task that failed.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.memory.cases import StoredCase, store, stored

_PROGRAM = "benchmarks.memory.worker"
_ROOT = Path(__file__).parents[2]
_SECONDS = 3600


class TaskError(RuntimeError):
    """A task failed; the message says why."""


def run(task: str, folder: Path, threads: int, *arguments: str) -> Any:
    """Runs a task, and gives what it returned as JSON has it.

    Args:
        task: one of `TASKS`.
        folder: of the case.
        threads: of libraries that read their number from the environment.
        arguments: of the task.

    Raises:
        TaskError: the task failed, with the last line of what it said.
    """
    names = ("OMP_NUM_THREADS", "TVM_NUM_THREADS")
    try:
        done = subprocess.run(
            [sys.executable, "-m", _PROGRAM, task, str(folder.absolute()), *arguments],
            cwd=_ROOT,
            env=os.environ | dict.fromkeys(names, str(threads)),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise TaskError(f"it took more than {_SECONDS} s") from error
    if done.returncode < 0:
        raise TaskError(f"it died of {signal.Signals(-done.returncode).name}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise TaskError(lines[-1][:200])
    return json.loads(_result(task, folder).read_text())


def _result(task: str, folder: Path) -> Path:
    return folder / f"{task}.json"


def _compile(case: StoredCase, folder: Path) -> Any:
    from benchmarks.memory.plans import compiled

    return compiled(case, folder)


def _plan_by_tvm(case: StoredCase, folder: Path) -> Any:
    from benchmarks.memory.plans import planned_by_tvm

    return planned_by_tvm(case, folder)


def _engine(name: str) -> Callable[[StoredCase, Path], Any]:
    """A function of `engines`, which is imported in its own process alone."""

    def run(case: StoredCase, folder: Path) -> Any:
        from benchmarks.memory import engines

        return getattr(engines, name)(case, folder)

    return run


# What needs a case; `store` makes one.
TASKS: dict[str, Callable[[StoredCase, Path], Any]] = {
    "compile": _compile,
    "tvm": _plan_by_tvm,
    "odtc": _engine("odtc_sample"),
    "write-onnxruntime": _engine("write_ort"),
    "onnxruntime": _engine("ort_sample"),
    "torch": _engine("torch_sample"),
}
STORE = "store"


def _main() -> None:
    task, folder, *arguments = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    if task == STORE:
        name, batch, threads = arguments
        result = store(name, int(batch), int(threads), folder)
    else:
        result = TASKS[task](stored(folder), folder)
    value = None if result is None else dataclasses.asdict(result)
    _result(task, folder).write_text(json.dumps(value))


if __name__ == "__main__":
    _main()
