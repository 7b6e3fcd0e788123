"""A sweep's parts: its turns, its file, waiting for a temperature, throttling, and frequencies."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from odtc.backends.targets import parse_target
from odtc.core.errors import DataError, UsageError
from odtc.runtime_rpc.metrics.cooldown import UNKNOWN, Cooldown, heat_of
from odtc.runtime_rpc.metrics.samples import Samples, Series
from odtc.runtime_rpc.metrics.throttling import busy_frequencies, throttling, throttling_within
from odtc.runtime_rpc.server.measure.frequency import cap_frequency, uncap_frequency
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sweep.plan import Choices, configurations, missing
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow, results_of, row_file
from odtc.runtime_rpc.sweep.sweep import frequencies_at_start
from tests.runtime_rpc.trees import ADRENO, plant

CPU, GPU = (parse_target(f"android-{kind}") for kind in ("cpu", "opencl"))
PHONE = dict.fromkeys(range(4), 1_800_000) | dict.fromkeys(range(4, 8), 2_400_000)
ONE, TWO = Configuration("digits", 4, "big", 1), Configuration("digits", 4, "big", 2)


def test_a_phone_is_swept_as_in_the_paper() -> None:
    found = configurations("lenet", 8, Choices(frequencies=("high", "low")), PHONE, CPU)
    half = [(it.cores, it.threads) for it in found if it.frequency == "high"]
    assert half == [
        *(("big", count) for count in (1, 2, 4)),
        *(("little", count) for count in (1, 2, 4)),
        *(("all", count) for count in (1, 2, 4, 8)),
    ]
    assert len(found) == 2 * len(half)


def test_cores_that_are_alike_are_swept_once() -> None:
    found = configurations("lenet", 8, Choices(), dict.fromkeys(range(6), 0), CPU)
    assert [(it.cores, it.threads) for it in found] == [("all", count) for count in (1, 2, 4, 6)]


def test_a_step_on_a_gpu_has_no_cores_and_no_threads() -> None:
    found = configurations("lenet", 8, Choices(frequencies=("high", "low")), PHONE, GPU)
    assert found == [Configuration("lenet", 8, "", 0, level) for level in ("high", "low")]


def test_turns_go_there_and_back_and_what_is_done_is_left_out() -> None:
    wanted = [ONE, TWO]
    assert missing(wanted, 2, []) == [(0, ONE), (0, TWO), (1, TWO), (1, ONE)]
    rows = [SweepRow(ONE, 0, (1.0,)), SweepRow(TWO, 0, reason="out of memory")]
    assert missing(wanted, 3, rows) == [(1, ONE), (2, ONE)]


def test_a_file_goes_on_behind_its_last_whole_row(tmp_path: Path) -> None:
    path, identity = tmp_path / "rows", {"device": None, "steps": 3}
    rows = [
        SweepRow(ONE, 0, (0.5, 0.25), frequencies={"cpu0": 1e9}),
        SweepRow(TWO, 0, reason="no room"),
    ]
    file = row_file(path, identity)
    for row in rows:
        file.add(row)
    with path.open("a") as cut:
        cut.write('{"configuration": {"mod')
    again = row_file(path, identity)
    assert again.rows == rows
    again.add(SweepRow(ONE, 1, (0.75,)))
    assert row_file(path, identity).rows == again.rows
    assert all(json.loads(line) for line in path.read_text().splitlines())
    with pytest.raises(UsageError, match="another sweep: steps"):
        row_file(path, identity | {"steps": 4})
    for other in ("a letter\n", "a letter", '{"comparison": {'):
        path.write_text(other)
        with pytest.raises(DataError, match="not from a sweep"):
            row_file(path, identity)
        assert path.read_text() == other


@pytest.mark.parametrize("length", [0, 5, 20])
def test_a_file_whose_first_line_was_cut_off_begins_anew(tmp_path: Path, length: int) -> None:
    path, identity = tmp_path / "rows", {"device": None, "steps": 3}
    row_file(path, identity)
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert row_file(path, identity).rows == []
    assert path.read_bytes() == whole


def test_results_join_rounds() -> None:
    rows = [
        SweepRow(ONE, 0, (0.5, 0.3), energy=3.0),
        SweepRow(TWO, 0),
        SweepRow(ONE, 1, (0.4,), energy=2.5),
    ]
    first, _ = results_of(rows)
    assert first.seconds == [0.3, 0.4, 0.5]
    assert first.step_energy == 2.0
    assert first.is_real
    assert not results_of([replace(rows[0], emulated=True)])[0].is_real


def sampled(root: Path) -> Samples:
    with LocalSession().sampling(root=str(root)) as found:
        time.sleep(0.02)
    return found.samples


def test_the_heat_is_that_of_the_cores(tmp_path: Path) -> None:
    assert heat_of(sampled(plant(ADRENO, tmp_path))) == pytest.approx(41.3)
    zone = tmp_path / "sys/class/thermal/thermal_zone0/type"
    zone.write_text("charger\n")
    assert heat_of(sampled(tmp_path)) == pytest.approx(41.3)
    zone.write_text("battery\n")
    (tmp_path / "sys/class/thermal/thermal_zone10/type").write_text("soc\n")
    assert heat_of(sampled(tmp_path)) == pytest.approx(29.0)


def test_a_cooldown_waits_until_it_is_as_cool_as_at_the_start(tmp_path: Path) -> None:
    path = plant(ADRENO, tmp_path) / "sys/class/thermal/thermal_zone0/temp"
    heats, said = iter(["44000", "42000", "41300"]), []

    def look() -> float | None:
        return heat_of(sampled(tmp_path))

    def progress(text: str) -> None:
        said.append(text)
        path.write_text(next(heats))

    cooldown = Cooldown(pause=0.0)
    assert cooldown.wait(look, progress) == ""
    assert said == []
    path.write_text("50000")
    assert cooldown.wait(look, progress) == ""
    assert said == [f"cooling down: {heat} °C, to 41.3 °C" for heat in ("50.0", "44.0", "42.0")]


def test_a_cooldown_has_an_end_and_says_once_that_nothing_is_readable() -> None:
    said: list[str] = []
    late = Cooldown(40.0, limit=0.05, pause=0.01).wait(lambda: 41.0, said.append)
    assert late == "began at 41.0 °C, above 40.0 °C"
    assert set(said) == {"cooling down: 41.0 °C, to 40.0 °C"}
    unreadable = Cooldown()
    said.clear()
    assert [unreadable.wait(lambda: None, said.append) for _ in range(2)] == ["", ""]
    assert said == [UNKNOWN]


def felt(**frequencies: float) -> Samples:
    times = (0.0, 0.5, 1.0)
    busy = {"cpu0.utilization": (0.0, 90.0, 90.0), "cpu1.utilization": (0.0, 4.0, 4.0)}
    series = {name: Series(times, values) for name, values in busy.items()}
    for core, hertz in frequencies.items():
        series[f"{core}.frequency"] = Series(times, (hertz / 2, hertz, hertz / 2))
    return Samples(0.0, 1.0, series)


def test_a_core_that_is_busy_and_slower_than_at_the_start_is_throttled() -> None:
    start = busy_frequencies(felt(cpu0=2.4e9, cpu1=1.8e9))
    assert start == {"cpu0": 2.4e9}
    rows = [SweepRow(ONE, 0, frequencies=start), SweepRow(ONE, 1, frequencies={"cpu0": 1.2e9})]
    rows.append(SweepRow(replace(ONE, frequency="low"), 0, frequencies={"cpu0": 3e8}))
    first = frequencies_at_start(rows, "")
    assert first == start
    now = busy_frequencies(felt(cpu0=1.6e9))
    assert throttling(first, now) == "throttled: cpu0 1.60 of 2.40 GHz"
    assert throttling(first, busy_frequencies(felt(cpu0=2.38e9))) == ""
    assert throttling({}, now) == ""


def test_a_long_run_says_that_it_was_throttled() -> None:
    times = tuple(number / 10 for number in range(101))
    load = {"cpu0.utilization": (90.0,) * 101, "cpu1.utilization": (4.0,) * 101}
    slower = tuple(2.4e9 if time < 5 else 1.6e9 for time in times)
    heated = load | {"cpu0.frequency": slower, "cpu1.frequency": slower}

    def run(series: dict[str, tuple[float, ...]]) -> Samples:
        return Samples(0.0, 10.0, {name: Series(times, of) for name, of in series.items()})

    assert throttling_within(run(heated)) == "throttled: cpu0 1.60 of 2.40 GHz"
    assert throttling_within(run(heated | {"cpu0.frequency": slower[::-1]})) == ""
    assert throttling_within(run(load)) == ""


def test_frequencies_are_capped_and_given_back(tmp_path: Path) -> None:
    root = "sys/devices/system/cpu/cpufreq/policy"
    tree = {
        f"{root}0/scaling_max_freq": "1800000\n",
        f"{root}0/scaling_available_frequencies": "300000 900000 1800000 \n",
        f"{root}4/scaling_max_freq": "2400000\n",
        f"{root}4/cpuinfo_min_freq": "800000\n",
        f"{root}4/cpuinfo_max_freq": "2400000\n",
    }
    plant(tree, tmp_path)
    limits = [tmp_path / f"{root}{number}/scaling_max_freq" for number in (0, 4)]
    for level, found in (("low", (300000, 800000)), ("mid", (900000, 1600000))):
        assert cap_frequency(level, str(tmp_path)) == ""
        assert tuple(int(limit.read_text()) for limit in limits) == found
    uncap_frequency()
    assert [limit.read_text() for limit in limits] == ["1800000\n", "2400000\n"]
    limits[1].unlink()
    assert "scaling_max_freq" in cap_frequency("low", str(tmp_path))
    assert limits[0].read_text() == "1800000\n"
    assert cap_frequency("low", str(tmp_path / "none")).startswith("no /sys/devices")
