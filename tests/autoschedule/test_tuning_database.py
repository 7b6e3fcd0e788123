"""Records: what is kept of a measurement, which of them fit a place, and files that crash."""

import dataclasses
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.autoschedule.tuning.database import add, merged, pruned, read, replace, tuned
from odtc.autoschedule.tuning.record import (
    Device,
    Fit,
    Record,
    host_device,
    identity_of,
    place_of,
    record_of,
)
from odtc.backends.targets import parse_target
from odtc.core.errors import DataError, OutputError

TARGET = parse_target("android-cpu{mcpu=cortex-a76}").resolved()
PHONE = Device("a phone", "cortex-a76", clocks="schedutil")
PLACE = place_of(TARGET, PHONE)


def record(**changes) -> Record:
    usual = Record(
        "convolution of something",
        PLACE.target,
        PHONE,
        PLACE.odtc,
        PLACE.tvm,
        {"tile": (8, 3)},
        (1.0, 1.1, 0.9),
        (1.5, 1.6, 1.4),
        kept=True,
        date="2026-01-02T03:04:05",
    )
    return dataclasses.replace(usual, **changes)


@given(
    st.builds(
        record,
        workload=st.text(),
        choice=st.dictionaries(st.text(), st.lists(st.integers(), max_size=3).map(tuple)),
        date=st.text(),
    )
)
def test_a_record_reads_back_as_itself(kept: Record) -> None:
    line = kept.to_json()
    assert "\n" not in line
    assert record_of(line) == kept


def test_a_gain_is_of_times_that_a_quarter_of_samples_are_below() -> None:
    assert record().gain == pytest.approx(1.45 / 0.95)
    # Others that take the core for a while change nothing.
    slowed = record(seconds=(1.0, 1.1, 9.9, 0.9, 9.9), usual=(1.5, 9.9, 1.6, 9.9, 1.4))
    assert slowed.gain == pytest.approx(1.5)
    assert record(seconds=(2.0,), usual=(3.0,)).gain == pytest.approx(1.5)
    assert record(seconds=(), usual=(), reason="it failed").gain == 0


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "null",
        record(reason="but it has times").to_json(),
        record(seconds=(), usual=()).to_json(),
        record(usual=(1.0,)).to_json(),
        record().to_json()[:-1],
    ],
)
def test_what_is_no_record_is_none(line: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        record_of(line)


# Texts of targets that differ in one thing only from that of a record.
OTHER_TARGETS = {
    "another core": "android-cpu{mcpu=cortex-a78}",
    "another feature": "android-cpu{mcpu=cortex-a76,mattr=+neon}",
    "other threads": "android-cpu{mcpu=cortex-a76,threads=4}",
    "another system": "linux-arm64-cpu{mcpu=cortex-a76}",
    "another kind": "android-opencl",
}
# What must not get its choice.
NEAR_MISSES = {
    name: {"target": identity_of(parse_target(text).resolved())}
    for name, text in OTHER_TARGETS.items()
} | {
    "another version": {"odtc": "0.0.9"},
    "another TVM": {"tvm": "0.26.0"},
    "an emulated device": {"device": dataclasses.replace(PHONE, emulated=True)},
    "another family": {"device": Device("another phone", "cortex-x4")},
}


@pytest.mark.parametrize("changes", NEAR_MISSES.values(), ids=list(NEAR_MISSES))
def test_a_record_of_another_place_is_never_applied(changes: dict) -> None:
    assert record().fit(PLACE) is Fit.DEVICE
    missing = record(**changes)
    assert missing.fit(PLACE) is None
    assert tuned([missing], PLACE)(missing.workload) is None


def test_a_gpu_that_nobody_names_gets_no_records() -> None:
    anywhere = parse_target("android-opencl").resolved()
    mali = Device("Mali-G76", "Mali-G76", "r32p1")
    of = record(target=identity_of(anywhere), device=mali)
    assert of.fit(place_of(anywhere, None)) is None
    assert of.fit(place_of(anywhere, Device("Adreno 640", "Adreno 640", "r32p1"))) is None
    assert of.fit(place_of(anywhere, mali)) is Fit.DEVICE
    newer = dataclasses.replace(mali, driver="r38p0")
    assert of.fit(place_of(anywhere, newer)) is Fit.FAMILY


def test_a_record_of_this_device_goes_before_one_of_its_family() -> None:
    other = record(device=Device("its sister", "cortex-a76"), choice={"tile": (4, 4)})
    own = record()
    for records in ([own, other], [other, own]):
        told = tuned(records, PLACE)(own.workload)
        assert told is not None
        assert told.choice == own.choice
        assert told.source == "this device, a phone, 2026-01-02"
    told = tuned([own], place_of(TARGET, None))(own.workload)
    assert told is not None
    assert told.source.startswith("another device of its family, a phone")


def test_trials_and_the_usual_choice_change_nothing() -> None:
    assert tuned([record(kept=False)], PLACE)(record().workload) is None
    assert tuned([record(choice={})], PLACE)(record().workload) is None
    # Measured again, it was no better than what the model of the machine takes.
    assert tuned([record(usual=(1.0, 1.1, 0.9))], PLACE)(record().workload) is None
    assert tuned([record()], PLACE)("another product") is None


def test_of_several_choices_the_best_is_told_whatever_their_order() -> None:
    better = record(usual=(3.0, 3.1, 2.9), choice={"tile": (6, 4)})
    for records in ([better, record()], [record(), better]):
        told = tuned(records, PLACE)(better.workload)
        assert told is not None
        assert told.choice == better.choice
        assert pruned(records, PLACE.odtc, PLACE.tvm) == [better]


def test_what_a_crash_has_torn_is_skipped_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "tuned.jsonl"
    assert read(file).records == ()
    add(file, [record(date="1")])
    whole = file.read_bytes()
    for length in range(0, len(whole) - 1, 9):
        file.write_bytes(whole + whole[:length])
        add(file, [record(date="2")])
        found = read(file)
        assert [each.date for each in found.records] == ["1", "2"]
        assert found.damaged == (1 if length else 0)


def _add_for_ever(file: Path, name: str) -> None:
    number = 0
    while True:
        add(file, [record(workload=name, date=str(number))])
        number += 1


def test_processes_that_are_killed_while_they_write_lose_nothing(tmp_path: Path) -> None:
    file, context = tmp_path / "tuned.jsonl", multiprocessing.get_context("fork")
    for turn in range(5):
        writers = [
            context.Process(target=_add_for_ever, args=(file, f"{turn} {each}")) for each in "ab"
        ]
        for writer in writers:
            writer.start()
        time.sleep(0.05 + 0.02 * turn)
        for writer in writers:
            os.kill(writer.pid or 0, signal.SIGKILL)
            writer.join()
    found = read(file)
    assert found.damaged <= 10
    dates: dict[str, list[int]] = {}
    for each in found.records:
        dates.setdefault(each.workload, []).append(int(each.date))
    # Every record that was acknowledged is there: all up to the last one of each writer.
    assert all(numbers == list(range(len(numbers))) for numbers in dates.values())
    assert len(dates) > 5


def test_files_are_merged_and_pruned(tmp_path: Path) -> None:
    trial, old = record(kept=False), record(odtc="0.0.1")
    first, second = record(date="1"), record(date="2", usual=(5.0, 5.0, 5.0))
    assert merged([trial, first], [first, second]) == [trial, first, second]
    assert pruned([trial, old, first, second], PLACE.odtc, PLACE.tvm) == [second]
    file = tmp_path / "tuned.jsonl"
    replace(file, [first, second])
    assert read(file).records == (first, second)


def test_a_file_that_holds_something_else_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("milk\neggs\n")
    with pytest.raises(DataError, match="no tuning records"):
        read(file)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(OutputError, match="cannot be saved"):
        add(file / "below", [record()])


def test_a_processor_has_the_name_that_the_system_gives_it() -> None:
    target = parse_target("host-cpu").resolved()
    said = {
        "/proc/cpuinfo": "processor\t: 0\nmodel name\t: A CPU @ 3: fast\n\nmodel name\t: Another\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    }
    device = host_device(target, said)
    assert device == Device("A CPU @ 3: fast", str(target.mcpu), "", "powersave")
    assert host_device(target, {}).name
    assert host_device(target) == host_device(target)
