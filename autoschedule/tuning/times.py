"""Times of calls from tuning records, for the planners of a step."""

from collections.abc import Iterable, Mapping
from statistics import median

from odtc.autoschedule.tuning.record import Fit, Record, TuningPlace, typical
from odtc.backends.cost.measured_times import Measured, MeasuredTimes, measured_times


def times_of(
    records: Iterable[Record], place: TuningPlace, threads: int, gains: Mapping[str, float]
) -> MeasuredTimes:
    """The times of workloads at a place.

    Trials count, too: each has samples of the usual kernel beside it. Those of this device go
    before those of its family. Records of an emulated device are left out.

    Args:
        records: of any place.
        place: where calls will run.
        threads: that a call keeps busy there.
        gains: of workloads that have a recorded choice, over the usual kernels. They are ratios
            of samples in turns, so they hold whatever the clocks were at other times.
    """
    found: dict[str, dict[Fit, list[Record]]] = {}
    for record in records:
        fit = record.fit(place)
        if fit and record.seconds and record.modelled > 0 and not record.device.emulated:
            found.setdefault(record.workload, {}).setdefault(fit, []).append(record)
    known = {}
    for workload, by_fit in found.items():
        best = by_fit.get(Fit.DEVICE) or by_fit[Fit.FAMILY]
        usual = threads * median(typical(record.usual) for record in best)
        told = usual / gains.get(workload, 1.0)
        known[workload] = Measured(usual, told, best[-1].modelled)
    return measured_times(known)
