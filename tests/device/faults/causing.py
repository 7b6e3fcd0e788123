"""What is at work on a phone, and what happens to it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

import odtc
from benchmarks.models.digits import digits_data
from odtc.cli.main import main
from odtc.runtime_rpc.adb import state
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, plug_in, session_process
from tests.fast import fast_if

BATCH = 32
STEPS = 12
LIMITS = Limits(beat=0.5, silence=3.0, run=60.0)
ROUNDS = fast_if(lambda number: number == 0, range(20))


def train(files: Path, device: str, checkpoint: Path, *options: str) -> int:
    command = ["train", files / "digits.odtc", "--data", files / "digits.npz", "--lr", "0.01"]
    often = ["--steps", STEPS, "--checkpoint", checkpoint, "--checkpoint-every", 4]
    return main([str(word) for word in [*command, *often, "--device", device, *options]])


def step_for_ever(trainer: odtc.Trainer) -> None:
    x, y, *_ = digits_data()
    while True:
        trainer.step(x[:BATCH], y[:BATCH], 0.001)


def trainer_on(ready: AdbPhone, files: Path) -> odtc.Trainer:
    known = state.find(ready.serial)
    assert known
    return odtc.load(files / "digits.odtc").trainer(known.url)


@contextmanager
def soon(fault: Callable[[], object]) -> Iterator[None]:
    """The fault happens while the block is at work."""
    timer = threading.Timer(0.6, fault)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@contextmanager
def frozen(phone: AdbPhone) -> Iterator[None]:
    processes = phone.processes()
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            # What is awake again ends what it finds lost, before its turn has come.
            with suppress(psutil.NoSuchProcess):
                process.resume()


def kill_session(phone: AdbPhone) -> None:
    session_process(phone).kill()


def pull_the_cable(phone: AdbPhone) -> None:
    adb("disconnect", phone.serial)
    time.sleep(1)
    plug_in(phone)


def freeze(phone: AdbPhone) -> None:
    with frozen(phone):
        time.sleep(LIMITS.silence + 2)
