"""One compile, in a process of its own.

Called with the path of a model, a batch, a loss, an optimizer, and when it was started, in seconds
of the clock. Prints the seconds of each stage, of the clock and of the processor, and the most
memory, as JSON.
"""

import json
import os
import sys
import time
from dataclasses import InitVar, asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

# What is neither read, lowered, compiled nor linked.
START, WRITE = "start", "write"


@dataclass
class Stages:
    """The stages of a compile.

    Attributes:
        started: when the process was, as `time.time` has it. The system's own record of it can be a
            second off.
        wall: seconds of the clock, by the name of the stage.
        processor: seconds of all cores, by its name.
        peak_bytes: of memory.
    """

    started: InitVar[float]
    wall: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    _name: str = START
    _at: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self, started: float) -> None:
        self._at = started, 0.0

    def begin(self, name: str) -> None:
        """A stage ends, and one of that name begins."""
        now = time.time(), time.process_time()
        for seconds, then, at in zip((self.wall, self.processor), self._at, now, strict=True):
            seconds[self._name] = seconds.get(self._name, 0.0) + at - then
        self._name, self._at = name, now


def _peak() -> int:
    """The most memory of this program: `getrusage` begins with that of what started it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def main() -> None:
    """Compiles."""
    model, batch, loss, optimizer, started = sys.argv[1:]
    stages = Stages(float(started))
    from odtc.core.process.without_torch import leave_out_torch

    # As the command does.
    leave_out_torch()
    from odtc.driver.entry_points import compile_model

    with TemporaryDirectory() as folder:
        artifact = compile_model(
            model, batch=int(batch), loss=loss, optimizer=optimizer, progress=stages.begin
        )
        stages.begin(WRITE)
        artifact.save(Path(folder) / "m.odtc")
    stages.begin("")
    stages.peak_bytes = _peak()
    print(json.dumps({name: v for name, v in asdict(stages).items() if name[0] != "_"}))
    sys.stdout.flush()
    # Nothing that comes after it is part of a compile.
    os._exit(0)


if __name__ == "__main__":
    main()
