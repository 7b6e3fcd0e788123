"""Kernels that are measured on a device: sound ones, and such that end or hold up their session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import odtc
from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput, MeasureResult
from odtc.runtime_rpc.guards.limits import Limits
from odtc.tuner.benches import DeviceBench
from tests.needs import needs_emulated_arm
from tests.runtime_rpc.device_program.kernel_libraries import (
    COUNT,
    CRASHES,
    HANGS,
    WRONG,
    candidate,
)
from tests.runtime_rpc.own_server import ARM, NATIVE, SANITIZED, serving

CONFIG = MeasureConfig(least=3, most=3)
# The machine that each server's kernels are for.
MACHINES = {NATIVE: None, SANITIZED: None, ARM: "aarch64"}


@pytest.fixture(
    params=[
        NATIVE,
        pytest.param(SANITIZED, marks=pytest.mark.slow),
        pytest.param(ARM, marks=[needs_emulated_arm(), pytest.mark.device, pytest.mark.slow]),
    ]
)
def server(request) -> str:
    return request.param


@pytest.fixture
def bench(server: str, tmp_path: Path) -> Iterator[DeviceBench]:
    with serving(tmp_path / "sessions", server=server) as url:
        limits = Limits(run=2, request=30)
        found = DeviceBench(lambda: odtc.connect(url, limits), threads=1)
        yield found
        found.close()


def measured(bench: DeviceBench, folder: Path, machine: str | None, *factors: str) -> list:
    usual, *others = (candidate(folder, factor, machine) for factor in ("2", *factors))
    inputs = (((COUNT,), "float32"),)
    return bench(MeasureInput(usual, tuple(others), inputs), CONFIG)


def is_sound(outcome: MeasureResult) -> bool:
    return not outcome.reason and len(outcome.seconds) == len(outcome.usual) == 3


def test_only_what_is_wrong_fails(bench: DeviceBench, server: str, tmp_path: Path) -> None:
    factors = ("2", WRONG, CRASHES, HANGS, "2.0f")
    outcomes = measured(bench, tmp_path, MACHINES[server], *factors)
    first, wrong, crashed, hung, last = outcomes
    assert is_sound(first)
    assert is_sound(last)
    assert "a value is wrong by 0.5 of the largest one" in wrong.reason
    ended = "ended with status 1" if server == SANITIZED else "ended by SIGSEGV"
    assert ended in crashed.reason
    assert "it took more than 2 s" in hung.reason
    # Others that are measured there afterwards know nothing of it.
    assert is_sound(*measured(bench, tmp_path, MACHINES[server], "2"))


def test_what_is_no_library_fails_alone(bench: DeviceBench, server: str, tmp_path: Path) -> None:
    usual, broken, sound = (candidate(tmp_path, "2", MACHINES[server]) for _ in range(3))
    broken.path.write_bytes(b"no library")
    outcomes = bench(MeasureInput(usual, (broken, sound), (((COUNT,), "float32"),)), CONFIG)
    assert "the library cannot be loaded" in outcomes[0].reason
    assert is_sound(outcomes[1])
