"""Times from records: of which device, of which samples, and where there are none."""

import dataclasses

import pytest

from odtc.autoschedule.tuning.database import tuned
from odtc.autoschedule.tuning.record import Device, Record, place_of, record_of
from odtc.backends.cost.measured_times import NOTHING, Measured, MeasuredTimes
from odtc.backends.targets import parse_target

TARGET = parse_target("android-cpu{mcpu=cortex-a76}").resolved()
PHONE, OTHER = Device("a phone", "cortex-a76"), Device("another phone", "cortex-a76")
PLACE = place_of(TARGET, PHONE)
WORKLOAD = "convolution(arg0,arg1; 1) of float32"


def record(**changes) -> Record:
    """A trial: the usual kernel takes 3 s where a model says 2, its own half of that."""
    of = (WORKLOAD, PLACE.target, PHONE, PLACE.odtc, PLACE.tvm, {"tile": (8, 3)})
    return dataclasses.replace(Record(*of, (1.5,), (3.0,), modelled=2.0), **changes)


def times(*records: Record, threads: int = 1) -> MeasuredTimes:
    return tuned(records, PLACE, threads).times


def test_trials_say_what_the_usual_kernel_takes() -> None:
    assert times(record()).known == {WORKLOAD: Measured(3.0, 3.0, 2.0)}
    several = times(record(), record(usual=(4.0,)), record(usual=(9.0,)))
    assert several.seconds(WORKLOAD, is_tuned=False) == 4.0


def test_a_kernel_that_is_told_its_loops_takes_less_by_its_gain() -> None:
    # Clocks were lower when it was kept, for both kernels alike.
    found = times(record(), record(), record(kept=True, seconds=(4.0,), usual=(6.0,)))
    assert found.seconds(WORKLOAD, is_tuned=False) == 3.0
    assert found.seconds(WORKLOAD, is_tuned=True) == 2.0
    # A choice that is not worth using is given to no kernel.
    slow = times(record(), record(kept=True, seconds=(6.0,), usual=(6.0,)))
    assert slow.seconds(WORKLOAD, is_tuned=True) == slow.seconds(WORKLOAD, is_tuned=False)


def test_times_are_of_all_cores_that_a_call_keeps_busy() -> None:
    assert times(record(), threads=4).known == {WORKLOAD: Measured(12.0, 12.0, 2.0)}


def test_the_device_itself_goes_before_its_family() -> None:
    theirs = record(device=OTHER, usual=(7.0,))
    assert times(theirs).seconds(WORKLOAD, is_tuned=False) == 7.0
    assert times(record(), theirs, theirs).seconds(WORKLOAD, is_tuned=False) == 3.0


@pytest.mark.parametrize(
    "changes",
    [
        {"modelled": 0.0},
        {"seconds": (), "usual": (), "reason": "it failed"},
        {"odtc": "0.0.9"},
        {"tvm": "0.26.0"},
        {"target": "another"},
        {"device": Device("a laptop", "znver5")},
    ],
)
def test_what_says_nothing_of_this_place_is_left_out(changes: dict) -> None:
    assert times(record(**changes)) == NOTHING


def test_an_emulated_device_has_choices_and_no_times() -> None:
    phone = dataclasses.replace(PHONE, emulated=True)
    found = tuned([record(device=phone, kept=True)], place_of(TARGET, phone))
    assert found(WORKLOAD) is not None
    assert found.times == NOTHING


def test_a_line_from_before_has_no_time_of_a_model() -> None:
    line = record().to_json().replace(',"modelled":2.0', "")
    assert "modelled" not in line
    assert record_of(line) == record(modelled=0.0)
    with pytest.raises(ValueError, match="could not convert"):
        record_of(record().to_json().replace(":2.0", ':"much"'))
