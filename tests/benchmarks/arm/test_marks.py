"""What a guest in Python says: its losses alone."""

import os
import subprocess
import sys
from pathlib import Path

import benchmarks.arm.ours

GUESTS = Path(benchmarks.arm.ours.__file__).with_name("guests")
# It writes as a library in C does, past Python's own stdout.
GUEST = """
import os
from marks import count

losses = [0.5, 0.25, 0.125, 0.0625]
def step():
    os.write(1, b"The device supports: i8sdot:1\\n")
    return losses.pop(0)

count(step, 3)
"""


def test_stdout_has_the_losses_alone(tmp_path: Path) -> None:
    """Here a mark is a call that Linux does not know."""
    done = subprocess.run(
        [sys.executable, "-c", GUEST],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(GUESTS)},
        check=True,
    )
    assert done.stdout.split() == ["0.5", "0.25", "0.125", "0.0625"]
    assert done.stderr.count("i8sdot") == 4
    assert "libc" in (tmp_path / "maps").read_text()
