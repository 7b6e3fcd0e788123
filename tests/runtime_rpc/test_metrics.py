"""Samples: what is read of phones and Jetsons, and what follows by the paper's equations."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from odtc.core.errors import DataError, UsageError
from odtc.runtime_rpc.metrics.samples import Samples, Series, samples_of
from odtc.runtime_rpc.metrics.tegrastats import parse_tegrastats
from odtc.runtime_rpc.metrics.usage import usage_of
from odtc.runtime_rpc.server.measure import sampler
from odtc.runtime_rpc.server.measure.sampler import Sampler
from odtc.runtime_rpc.server.measure.sources import unit_of
from odtc.runtime_rpc.sessions.local import LocalSession
from tests.runtime_rpc.trees import ADRENO, GPUS, MALI, ORIN, TX2, plant


def sampled(root: Path, seconds: float = 0.05) -> Samples:
    with LocalSession().sampling(root=str(root)) as found:
        time.sleep(seconds)
    return found.samples


def states(samples: Samples) -> dict[str, str]:
    return {name: probe.state for name, probe in samples.probes.items()}


def last(samples: Samples) -> dict[str, float]:
    return {name: series.values[-1] for name, series in samples.series.items()}


COMMON = {
    "cpu0.busy": 2.5,
    "cpu0.idle": 4.4,
    "cpu1.busy": 1.5,
    "cpu1.idle": 4.0,
    "cpu0.frequency": 1804800e3,
    "cpu1.frequency": 2841600e3,
    "resident": 512 << 20,
    "available": 2 << 30,
    "temperature.cpu-0-0-usr-0": 41.3,
    "temperature.battery-10": 29.0,
    "battery.voltage": 4.0,
}


@pytest.mark.parametrize(
    ("tree", "own"),
    [
        (
            ADRENO,
            {
                "gpu.utilization": 25.0,
                "gpu.frequency": 585e6,
                "battery.current": -0.5,
                "battery.discharging": 1.0,
            },
        ),
        (
            MALI,
            {
                "gpu.utilization": 37.0,
                "gpu.frequency": 848e6,
                "battery.current": 0.812,
                "battery.discharging": 0.0,
            },
        ),
    ],
    ids=["Adreno", "Mali"],
)
def test_a_phone_is_read(tree: dict[str, str], own: dict[str, float], tmp_path: Path) -> None:
    samples = sampled(plant(tree, tmp_path))
    assert last(samples) == pytest.approx(COMMON | own, rel=1e-3)
    assert samples.fixture
    assert not samples.is_real
    assert samples.cores == ("cpu0", "cpu1")
    absent = {name for name, state in states(samples).items() if state != "value"}
    assert absent == {"gpu frequency of devfreq" if tree is ADRENO else "gpu frequency"}
    assert all(unit_of(name) for name in samples.series if name != "battery.discharging")


@pytest.mark.parametrize(("path", "text", "percent"), GPUS, ids=[path for path, *_ in GPUS])
def test_a_gpu_says_in_many_ways_how_busy_it_is(
    path: str, text: str, percent: float, tmp_path: Path
) -> None:
    samples = sampled(plant({path: text}, tmp_path))
    assert last(samples)["gpu.utilization"] == pytest.approx(percent)


def test_what_is_not_there_is_absent_and_what_says_nothing_says_why(tmp_path: Path) -> None:
    samples = sampled(plant({"sys/class/kgsl/kgsl-3d0/gpuclk": "none\n"}, tmp_path))
    assert set(states(samples).values()) == {"absent"}
    assert "gpuclk: invalid literal" in samples.probes["gpu frequency"].detail
    assert "no /proc/stat" in samples.probes["cores"].detail
    assert samples.series == {}
    usage = usage_of(samples)
    assert usage.average_utilization is None
    assert usage.energy_note == "the device does not say its power"


@contextmanager
def nobody() -> Iterator[None]:
    """Without the rights of root, whom nothing is denied."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_what_may_not_be_read_is_denied() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = plant(MALI, Path(folder))
        root.chmod(0o755)
        (root / "proc/stat").chmod(0)
        (root / "sys/class/thermal").chmod(0)
        (root / "sys/class/misc/mali0/device").chmod(0)
        with nobody():
            probes = Sampler(0.01, folder).probes
        denied = {name for name, probe in probes.items() if probe.state == "denied"}
        assert denied == {"cores", "temperature", "gpu"}
        assert "Permission denied" in probes["temperature"].detail


def periods(count: int) -> None:
    """Sleeps as a sampler does between its samples, so many times."""
    for _ in range(count):
        time.sleep(0.005)


def test_samples_follow_the_files_at_their_period(tmp_path: Path) -> None:
    path = plant(ADRENO, tmp_path) / "sys/class/power_supply/battery/current_now"
    began = time.monotonic()
    with LocalSession().sampling(period=0.005, root=str(tmp_path)) as found:
        periods(40)
        path.write_text("-250000\n")
        periods(40)
    series, most = found.samples.series["battery.current"], (time.monotonic() - began) / 0.005
    assert set(series.values) == {-0.5, -0.25}
    # A machine that is busy makes both late, and each in its own way.
    assert 20 <= len(series.times) <= most + 2
    assert list(series.times) == sorted(series.times)
    assert len(found.samples.series["battery.discharging"].times) < len(series.times) / 5


def test_a_sampler_that_takes_too_much_samples_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looks are rare on a machine that is busy: at every other round, two of them are soon over.
    monkeypatch.setattr(sampler, "MOST_OF_ALL", 0.0)
    monkeypatch.setattr(sampler, "_LOOKED_AT", 2)
    plant(ADRENO, tmp_path)
    with LocalSession().sampling(period=0.001, root=str(tmp_path)) as found:
        time.sleep(1.0)
    assert found.samples.period >= 0.004
    assert len(found.samples.series["battery.current"].times) < 200


def test_this_machine_is_sampled() -> None:
    with LocalSession().sampling() as found:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            np.ones(1000).sum()
    samples, usage = found.samples, found.usage
    assert states(samples)["cores"] == states(samples)["resident"] == "value"
    assert not samples.fixture
    assert max(usage.core_utilization.values()) > 50
    assert all(0 <= value <= 1 for value in usage.idle_ratio.values())
    assert usage.peak_resident
    assert usage.peak_resident > 30 << 20
    assert samples_of(samples.to_dict()) == samples


def test_a_block_that_fails_ends_its_sampling_and_its_error_is_the_one() -> None:
    def fail() -> None:
        with LocalSession().sampling() as found:
            with pytest.raises(UsageError, match="no samples yet"):
                _ = found.samples
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


@pytest.mark.parametrize("period", [0.0, float("nan"), 61.0])
def test_a_period_has_bounds(period: float) -> None:
    with (
        pytest.raises(UsageError, match=r"give one from 0\.001 to 60"),
        LocalSession().sampling(period=period),
    ):
        pass


# A recorded trace: one second in five samples, with a core that rests in the middle, one that is
# switched off at the end, and a battery whose voltage is read half as often.
TIMES = (10.0, 10.25, 10.5, 10.75, 11.0)
RECORDED = Samples(
    10.0,
    11.0,
    {
        "cpu0.busy": Series(TIMES, (5.0, 5.25, 5.25, 5.25, 5.5)),
        "cpu0.idle": Series(TIMES, (7.0, 7.0, 7.25, 7.5, 7.5)),
        "cpu1.busy": Series(TIMES, (1.0, 1.2, 1.2, 1.2, 1.2)),
        "cpu1.idle": Series(TIMES, (3.0, 3.05, 3.3, 3.3, 3.3)),
        "gpu.utilization": Series(TIMES, (99.0, 80.0, 40.0, 0.0, 20.0)),
        "battery.current": Series(TIMES, (-9.0, -1.0, -0.5, -0.5, -1.0)),
        "battery.voltage": Series(TIMES[::2], (4.0, 3.8, 4.2)),
        "battery.discharging": Series(TIMES[::4], (1.0, 1.0)),
    },
)


def test_the_four_equations_by_hand() -> None:
    usage = usage_of(RECORDED)
    assert usage.seconds == 1
    # Equation 1: 0.5 s of 1 s, and 0.2 s of 1 s.
    assert usage.core_utilization == pytest.approx({"cpu0": 50.0, "cpu1": 20.0})
    # Equation 2.
    assert usage.average_utilization == pytest.approx(35.0)
    # Equation 3: (0.2 + 0.1 + 0 + 0.05) s of 1 s; the first sample is of the time before.
    assert usage.gpu_utilization == pytest.approx(35.0)
    # Equation 4: 0.25 s of 1 * 4.0, 0.5 * 3.8, 0.5 * 3.8 and 1 * 4.2 watts.
    assert usage.energy == pytest.approx(0.25 * (4.0 + 1.9 + 1.9 + 4.2))
    assert usage.power == pytest.approx(3.0)
    # cpu0 rests for half of the time; cpu1 for half of what it was on for.
    assert usage.idle_ratio == pytest.approx({"cpu0": 0.5, "cpu1": 0.5})


@pytest.mark.parametrize(
    ("status", "note"),
    [
        (Series(TIMES[::2], (1.0, 0.0, 1.0)), "plugged in"),
        (None, "does not say whether its battery is charged"),
    ],
)
def test_a_plugged_phone_has_no_energy(status: Series | None, note: str) -> None:
    series = dict(RECORDED.series)
    del series["battery.discharging"]
    if status:
        series["battery.discharging"] = status
    usage = usage_of(Samples(10.0, 11.0, series))
    assert usage.energy is None
    assert note in usage.energy_note
    assert usage.power == pytest.approx(3.0)


def test_an_interval_without_a_tick_joins_the_next_one() -> None:
    times = (0.0, 0.005, 0.010, 0.015)
    series = {
        "cpu0.busy": Series(times, (1.0, 1.0, 1.01, 1.01)),
        "cpu0.idle": Series(times, (2.0, 2.0, 2.00, 2.01)),
    }
    found = Samples(0.0, 0.015, series).utilization("cpu0")
    assert found.times == (0.0, 0.010, 0.015)
    assert found.values[1:] == (100.0, 0.0)


def test_a_mean_is_of_the_intervals_that_a_span_meets() -> None:
    series = Series((0.0, 1.0, 2.0, 4.0), (9.0, 10.0, 20.0, 40.0))
    assert series.mean(0.5, 1.5) == 15.0
    assert series.mean(1.75, 3.0) == pytest.approx((0.25 * 20 + 1 * 40) / 1.25)
    assert series.mean(-5.0, 0.5) == 10.0
    assert series.mean(4.0, 9.0) is None
    assert Series().mean(0.0, 1.0) is None


def test_a_jetsons_log_is_read() -> None:
    samples = parse_tegrastats(TX2.splitlines(), 0.5)
    usage = usage_of(samples)
    cores = {"cpu0": 50.0, "cpu1": 0.0, "cpu2": 0.0, "cpu3": 0.0, "cpu4": 20.0, "cpu5": 20.0}
    assert usage.core_utilization == pytest.approx(cores)
    assert usage.average_utilization == pytest.approx(15.0)
    assert usage.gpu_utilization == pytest.approx(60.0)
    # VDD_IN is the board's rail: half a second each of 6 and 8 watts.
    assert usage.energy == pytest.approx(7.0)
    assert usage.idle_ratio["cpu4"] == pytest.approx(0.5)
    assert usage.hottest == 100.0
    assert samples.series["cpu0.frequency"].values == (2035e6,) * 3
    assert samples.series["available"].values[0] == (7855 - 2135) << 20
    assert samples.series["VDD_GPU.power"].values == (0.145,) * 3


def test_an_orins_line_is_read() -> None:
    found = last(parse_tegrastats([ORIN], 1.0))
    expected = {
        "cpu0.utilization": 12.0,
        "cpu2.utilization": 0.0,
        "gpu.utilization": 5.0,
        "gpu.frequency": 306e6,
        "temperature.gpu": -1.5,
        "board.power": 5.0,
        "VDD_CPU_GPU_CV.power": 0.696,
    }
    assert {name: found[name] for name in expected} == expected


def test_another_log_is_none_of_tegrastats() -> None:
    with pytest.raises(DataError, match="no line comes from tegrastats"):
        parse_tegrastats(["hello", ""], 1.0)
