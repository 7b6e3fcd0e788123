"""`python -m tests.device.bounds`: what odtc-device takes, beside its bounds.

The bytes of the program, its memory on this machine while it waits and in a session, and how long a
phone that nothing was pushed to takes to its first step, by one command: on the stand-in, so that
it is a bound and no time of a phone. That one is for a machine that does nothing else.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import odtc
from benchmarks.models.digits import digits_data, digits_model
from benchmarks.models.zoo import zoo_model
from benchmarks.output import numbers_table, terminal
from odtc.runtime_rpc.adb import setup
from odtc.runtime_rpc.native.android.device import android_device
from odtc.runtime_rpc.native.device.build import compiler_for, device_program
from odtc.runtime_rpc.tracker.greeting import status
from tests.device.adb_host import adb, adb_server, plugged_in
from tests.runtime_rpc.own_server import NATIVE, address, serving

_MODEL, _BATCH = "squeezenet", 4
_ROUNDS = 3
_KB, _MB = 1000, 1_000_000


@dataclass(frozen=True)
class Bounded:
    """A figure.

    Attributes:
        what: it is of.
        values: of each round.
        unit: of these and of the goal.
        goal: at most that.
    """

    what: str
    values: Sequence[float]
    unit: str
    goal: float

    @property
    def is_met(self) -> bool:
        """Whether the median is within the bound."""
        return statistics.median(self.values) <= self.goal


def sizes() -> Iterator[Bounded]:
    """Bytes of the program, for each system."""
    programs = {
        "Linux, x86-64": device_program(compiler_for("x86_64")),
        "Linux, 64-bit ARM": device_program(compiler_for("aarch64")),
        "Android, 64-bit ARM": android_device(),
    }
    for name, content in programs.items():
        yield Bounded(f"the program for {name}", [len(content) / _KB], "kB", 1000)


def memory(folder: Path) -> Iterator[Bounded]:
    """Resident bytes of the server while it waits, and of a session beside what it must hold."""
    onnx.save(zoo_model(_MODEL), folder / "model.onnx")
    artifact = odtc.compile(folder / "model.onnx", "host-cpu", batch=_BATCH)
    x = np.random.default_rng(0).standard_normal((_BATCH, 3, 224, 224), dtype=np.float32)
    planned = artifact.memory.arena_bytes + artifact.memory.parameter_bytes
    with serving(folder / "sessions", server=NATIVE) as url:
        said = status(address(url), 5, url) or {}
        idle = _resident(said["server_pid"], "VmRSS")
        yield Bounded("the server while it waits", [idle / _MB], "MB", 4)
        with artifact.trainer(url, threads=2) as trainer:
            trainer.step(x, np.arange(_BATCH), lr=1e-5)
            most = _resident(trainer.session.info()["pid"], "VmHWM")
        name = f"a session of {_MODEL} at batch {_BATCH}, beside plan and parameters"
        yield Bounded(name, [(most - planned) / _MB], "MB", 8)


def first_step(folder: Path) -> Iterator[Bounded]:
    """Seconds of `odtc train --device adb://SERIAL --steps 1`, on a phone that has nothing yet."""
    onnx.save(digits_model(), folder / "digits.onnx")
    artifact, data = folder / "digits.odtc", folder / "digits.npz"
    odtc.compile(folder / "digits.onnx", "android-cpu", batch=32).save(artifact)
    x, y, *_ = digits_data()
    np.savez(data, x=x, y=y)
    words = [sys.executable, "-m", "odtc", "train", artifact, "--data", data, "--lr", "0.01"]
    took = []
    with adb_server(folder), plugged_in() as phone:
        for _ in range(_ROUNDS):
            began = time.monotonic()
            subprocess.run(
                [*words, "--steps", "1", "--device", f"adb://{phone.serial}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=300,
            )
            took.append(time.monotonic() - began)
            setup.stop(phone.serial)
            adb("-s", phone.serial, "shell", "rm -r /data/local/tmp/odtc")
    yield Bounded("from nothing to the first step, emulated", took, "s", 5)


def _resident(process: int, field: str) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    (kib,) = re.findall(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(kib) << 10


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints all; 1 where a bound is not met."""
    parser = argparse.ArgumentParser(prog="python -m tests.device.bounds", description=__doc__)
    parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        found = [*sizes(), *memory(Path(name)), *first_step(Path(name))]
    table = numbers_table("odtc-device", "measured", "at most", "")
    for each in found:
        measured = f"{statistics.median(each.values):.2f} {each.unit}"
        verdict = "" if each.is_met else "TOO MUCH"
        table.add_row(each.what, measured, f"{each.goal:g} {each.unit}", verdict)
    terminal().print(table)
    return int(not all(each.is_met for each in found))


if __name__ == "__main__":
    sys.exit(main())
