"""Several benches: they measure side by side, and one that goes away leaves its jobs to others."""

import threading
import time
from pathlib import Path

import pytest

from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput, MeasureResult
from odtc.autoschedule.tuning.tasks import TuningTask, Writer, tasks_of
from odtc.autoschedule.tuning.tuning import Job
from odtc.backends.targets import parse_target
from odtc.core.errors import DeviceLostError
from odtc.core.process.side_by_side import cores as all_cores
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare
from odtc.tuner.kernel_measurer import KernelMeasurer
from tests.cli.training.digits import Digits
from tests.timed import ratio

CONFIG = MeasureConfig()


class Slow:
    """A bench whose measuring dominates; it may go away after some jobs, or wait for an event."""

    def __init__(self, seconds: float = 0.0, jobs: int = 1 << 30) -> None:
        self._seconds, self._jobs = seconds, jobs
        self.measured: list[Path] = []
        self.left = threading.Event()
        self.waits_for: Slow | None = None

    def __call__(self, subject: MeasureInput, config: MeasureConfig) -> list[MeasureResult]:
        time.sleep(self._seconds)
        if self.waits_for:
            assert self.waits_for.left.wait(60)
        if len(self.measured) >= self._jobs:
            self.left.set()
            raise DeviceLostError("the device went away", where="a bench")
        assert all(each.path.exists() for each in (subject.usual, *subject.others))
        self.measured += (each.path for each in subject.others)
        return [MeasureResult((1.0,), (1.0,))] * len(subject.others)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(scope="module")
def tasks(digits: Digits) -> list[TuningTask]:
    step = prepare(
        digits.model, parse_target("host-cpu{threads=1}"), StepOptions(batch=4), lambda _: None
    )
    return tasks_of(*step.kernels)


class Counting(Slow):
    """A bench that counts the libraries that are there when it is to measure."""

    def __init__(self) -> None:
        super().__init__()
        self.there: list[int] = []

    def __call__(self, subject: MeasureInput, config: MeasureConfig) -> list[MeasureResult]:
        self.there.append(len(list(subject.usual.path.parent.glob("*.so"))))
        return super().__call__(subject, config)


def kernel_measurer(
    tasks: list[TuningTask], *benches: Slow, lost: list[str] | None = None, cores: int = 1
) -> KernelMeasurer:
    from odtc.backends.targets import parse_target

    writer = Writer(parse_target("host-cpu{threads=1}").resolved())
    said = [] if lost is None else lost
    return KernelMeasurer(tasks, writer, benches, cores=cores, lost=said.append)


def test_jobs_of_a_bench_that_goes_away_are_done_by_another(tasks: list[TuningTask]) -> None:
    steady, leaving, lost = Slow(), Slow(jobs=1), list[str]()
    steady.waits_for = leaving
    with kernel_measurer(tasks, steady, leaving, lost=lost) as measurer:
        jobs = [Job(n, ({},), CONFIG) for n in range(5)]
        found = dict(measurer.outcomes(jobs))
        assert sorted(found) == [0, 1, 2, 3, 4]
        assert all(outcome.seconds for (outcome,) in found.values())
        assert len(steady.measured) + len(leaving.measured) == 5
        assert len(leaving.measured) == 1
        assert lost == ["a bench: the device went away"]
        # It is not asked again.
        assert dict(measurer.outcomes(jobs[:1])).keys() == {0}


def test_the_loss_of_the_last_bench_is_an_error(tasks: list[TuningTask]) -> None:
    with (
        kernel_measurer(tasks, Slow(jobs=0)) as measurer,
        pytest.raises(DeviceLostError, match="went away"),
    ):
        list(measurer.outcomes([Job(0, ({},), CONFIG)]))


@pytest.mark.parametrize("cores", [0, 1])
def test_others_are_built_while_one_is_measured_where_cores_are_left(
    tasks: list[TuningTask], cores: int
) -> None:
    bench = Counting()
    with kernel_measurer(tasks, bench, cores=cores) as measurer:
        # Each is a library of its own, and so is the usual kernel of each.
        assert len(list(measurer.outcomes([Job(n, ({},), CONFIG) for n in range(4)]))) == 4
    assert (bench.there[0] == 8) == (cores == 0)


@pytest.mark.timed
def test_three_benches_are_nearly_three_times_as_fast_where_measuring_dominates(
    tasks: list[TuningTask],
) -> None:
    jobs = [Job(n, ({},), CONFIG) for n in range(6)]
    with (
        kernel_measurer(tasks, Slow(12.0), cores=all_cores()) as one,
        kernel_measurer(tasks, *(Slow(12.0) for _ in range(3)), cores=all_cores()) as three,
    ):

        def run(measurer: KernelMeasurer) -> None:
            assert len(list(measurer.outcomes(jobs))) == 6

        for measurer in (one, three):
            list(measurer.outcomes(jobs[:1]))  # processes have begun by then
        found = ratio(lambda: run(one), lambda: run(three), rounds=3, clock=time.monotonic)
    assert found.median >= 1.8, found
