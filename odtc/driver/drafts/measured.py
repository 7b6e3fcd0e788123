"""What was measured of kernels on a target, by which they are chosen and plans are timed."""

from pathlib import Path
from typing import NamedTuple

from odtc.autoschedule.tuning.target_records import records_for
from odtc.backends.cost.measured_times import NOTHING, MeasuredTimes
from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.targets import Target
from odtc.driver.options.step_options import StepOptions
from odtc.runtime_rpc.sessions.local import gpu_here


class Measured(NamedTuple):
    """Records of kernels that were tuned, and times of kernels."""

    records: RecordLookup
    times: MeasuredTimes


def measured(target: Target, options: StepOptions) -> Measured:
    """What is known of a target's kernels; nothing, where the user wants none of it."""
    if not options.tuned:
        return Measured(no_records, NOTHING)
    assert not isinstance(options.device, str)  # see `on_device`
    database = None if options.database is None else Path(options.database)
    of = records_for(target, database, options.device, gpu_here)
    return Measured(of, of.times)
