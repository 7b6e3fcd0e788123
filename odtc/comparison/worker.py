"""An engine's work in a process of its own: `python -m odtc.comparison.worker TASK FOLDER ENGINE`.

`data` draws the batch, `rate` chooses the learning rate, `ceilings` measures what a machine can do
at most, `prepare` compiles or converts; `serve` imports, loads and takes the first steps, and then
one step for each line that it reads. It answers in lines of JSON on what was standard output;
whatever libraries print goes to standard error. A process that dies leaves the reason in its last
lines, if anywhere.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from odtc.comparison.case import Case, read_batch, read_case
from odtc.comparison.measures.resident import reset_peak, resident
from odtc.comparison.outcome import outcome_of
from odtc.core.errors import OdtcError
from odtc.core.process.trim import trim
from odtc.core.process.without_torch import leave_out_torch

Answer = Mapping[str, Any]
Say = Callable[[Answer], None]

# Between the engines' turns, worker threads of the former one go to sleep.
PAUSE_SECONDS = 0.05
TURN, END = "turn", "end"
OUTCOME, REASON = "outcome", "reason"
_LONGEST, _HEAD = 300, 80


def _data(case: Case, folder: Path, say: Say) -> None:
    from odtc.comparison.ours import work_of, write_data

    write_data(case, folder.parent)
    say(work_of(case))


def _ceilings(case: Case, folder: Path, say: Say) -> None:
    from odtc.comparison.measures.ceilings import copy_peak, fma_peak

    say({"fma": fma_peak(case.threads), "copy": copy_peak(case.threads)})


def _rate(case: Case, folder: Path, say: Say) -> None:
    from odtc.comparison.engines import ARTIFACT
    from odtc.comparison.ours import gentle_rate

    say({"lr": gentle_rate(case, folder / ARTIFACT, folder.parent)})


def _prepare(case: Case, folder: Path, say: Say) -> None:
    from odtc.comparison.engines import ENGINES

    began = time.perf_counter()
    known = ENGINES[_engine()].prepare(case, folder)
    say({"prepare_seconds": time.perf_counter() - began, **known})


def _serve(case: Case, folder: Path, say: Say) -> None:
    from odtc.comparison.engines import ENGINES
    from odtc.comparison.measures.parity import PARITY_STEPS

    x, y = read_batch(folder.parent)
    start = ENGINES[_engine()].start(case, folder)
    if case.memory_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (case.memory_limit, case.memory_limit))
    trim()
    imported, began = resident(), time.perf_counter()
    step = start()
    loaded = time.perf_counter() - began
    trim()
    ready = resident()
    reset_peak()
    losses = [float(step(x, y)) for _ in range(PARITY_STEPS)]
    known = {"load_seconds": loaded, "imported": imported, "ready": ready}
    say({"losses": losses, "peak": resident("VmHWM"), **known})
    for line in sys.stdin:
        if line.strip() == END:
            return
        time.sleep(PAUSE_SECONDS)
        step(x, y)
        busy, began = time.process_time(), time.perf_counter()
        step(x, y)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        say({"seconds": seconds, "cpu_seconds": busy, "peak": resident("VmHWM")})


_TASKS: dict[str, Callable[[Case, Path, Say], None]] = {
    "data": _data,
    "ceilings": _ceilings,
    "rate": _rate,
    "prepare": _prepare,
    "serve": _serve,
}


def shortened(text: str) -> str:
    """Shortens a line: its beginning names the failure, and its end the reason."""
    return text if len(text) <= _LONGEST else f"{text[:_HEAD]} … {text[-(_LONGEST - _HEAD) :]}"


def _engine() -> str:
    return sys.argv[3]


def _main() -> int:
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        private.write(f"{json.dumps(answer)}\n")
        private.flush()

    task, folder = sys.argv[1], Path(sys.argv[2])
    # What is measured of a peer is measured as its users have it.
    if task != "serve":
        leave_out_torch()
    try:
        _TASKS[task](read_case(folder), folder, say)
    except Exception as error:  # an engine may fail in any way of its own
        text = error.what if isinstance(error, OdtcError) else str(error)
        reason = " ".join((text.strip().splitlines() or [""])[0].split())
        words = f"{type(error).__name__}: {reason}"
        shown = reason if isinstance(error, OdtcError) else words
        say({OUTCOME: outcome_of(f"{words} {text}"), REASON: shortened(shown)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
