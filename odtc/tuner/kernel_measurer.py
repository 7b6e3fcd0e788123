"""Builds kernels in processes, and measures them on benches: this machine, or devices.

jobs ─orders→ Workers ─libraries→ benches ─→ outcomes
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from odtc.autoschedule.tuning.build import BuildOrder, KernelLibrary, build, kernel_text
from odtc.autoschedule.tuning.measure import MeasureInput, MeasureResult
from odtc.autoschedule.tuning.tasks import TuningTask, Writer
from odtc.autoschedule.tuning.tuning import Job
from odtc.autoschedule.tuning.workers import Failed, Workers
from odtc.backends.targets import Target
from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.errors import DeviceLostError
from odtc.core.process.side_by_side import cores as all_cores
from odtc.tuner.benches import Bench

# Seconds in which a kernel is built.
_BUILD_SECONDS = 60.0


@dataclass
class _Making:
    """A job whose libraries are built: by choice, the usual one under -1."""

    job: Job
    built: dict[int, KernelLibrary | Failed]
    left: int


class KernelMeasurer:
    """Builds in processes that stay alive, and measures on benches.

    Where benches leave cores alone, what is built is measured while others are built. Where they
    need all of them a build would be in the way: all of a wave are built before any is measured.

    Args:
        tasks: that jobs are of.
        writer: of their kernels.
        benches: that measure.
        cores: of this machine, that benches leave alone.
        lost: is told why a bench is none any more.
    """

    def __init__(
        self,
        tasks: Sequence[TuningTask],
        writer: Writer,
        benches: Sequence[Bench],
        *,
        cores: int,
        lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._texts = [kernel_text(task.kernel) for task in tasks]
        self._inputs = [_inputs(task) for task in tasks]
        self._benches, self._lost = list(benches), lost
        self._is_in_the_way = cores < 1
        self._usual: dict[int, KernelLibrary] = {}
        self._folder = private_folder()
        self._count = 0
        start = functools.partial(_builder, writer.target, writer.has_half)
        self._builders = Workers(start, cores if cores > 0 else all_cores(), _BUILD_SECONDS)

    def __enter__(self) -> "KernelMeasurer":
        return self

    def __exit__(self, *_: object) -> None:
        self._builders.close()
        for bench in self._benches:
            bench.close()
        remove_folder(self._folder)

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[int, list[MeasureResult]]]:
        """Numbers of jobs with the outcomes of their choices, as they come.

        Raises:
            DeviceLostError: all devices are gone.
        """
        ready: SimpleQueue[int | None] = SimpleQueue()
        done: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        making = {number: self._begun(job) for number, job in enumerate(jobs)}
        threads = [
            threading.Thread(target=self._serve, args=(bench, making, ready, done), daemon=True)
            for bench in self._benches
        ]
        for thread in threads:
            thread.start()
        left = set(making)
        try:
            for number in self._built(making):
                ready.put(number)
                yield from self._finished(done, left, wait=False)
            while left:
                yield from self._finished(done, left, wait=True)
        finally:
            for _ in threads:
                ready.put(None)

    def _begun(self, job: Job) -> _Making:
        return _Making(job, {}, len(job.choices) + (job.task not in self._usual))

    def _built(self, making: dict[int, _Making]) -> Iterator[int]:
        """Builds libraries; yields numbers of jobs that have all of theirs."""
        orders = [
            (number, at, BuildOrder(self._texts[each.job.task], choice, self._path()))
            for number, each in making.items()
            for at, choice in (
                *(() if each.job.task in self._usual else ((-1, {}),)),
                *enumerate(each.job.choices),
            )
        ]
        whole = []
        for which, answer in self._builders.answers([order for *_, order in orders]):
            number, at, _ = orders[which]
            each = making[number]
            each.built[at], each.left = answer, each.left - 1
            if at < 0 and isinstance(answer, KernelLibrary):
                self._usual[each.job.task] = answer
            if each.left == 0 and not self._is_in_the_way:
                yield number
            elif each.left == 0:
                whole.append(number)
        yield from whole

    def _path(self) -> Path:
        self._count += 1
        return self._folder / f"kernel{self._count}.so"

    def _finished(
        self, done: "SimpleQueue[tuple[int, Any]]", left: set[int], *, wait: bool
    ) -> Iterator[tuple[int, list[MeasureResult]]]:
        """Yields the results of benches.

        Raises:
            DeviceLostError: there is no bench left.
        """
        with suppress(Empty):
            while left:
                number, result = done.get(wait)
                wait = False
                if isinstance(result, list):
                    left.discard(number)
                    yield number, result
                elif isinstance(result, DeviceLostError) and self._benches:
                    self._lost(f"{result.where or 'a device'}: {result.what}".splitlines()[0])
                else:
                    raise result

    def _serve(
        self,
        bench: Bench,
        making: dict[int, _Making],
        ready: "SimpleQueue[int | None]",
        done: "SimpleQueue[tuple[int, Any]]",
    ) -> None:
        """Measures jobs on a bench until there are no more; another one redoes what it loses."""
        while (number := ready.get()) is not None:
            try:
                done.put((number, self._measured(bench, making[number])))
            except DeviceLostError as error:
                self._benches.remove(bench)
                ready.put(number)
                done.put((number, error))
                return
            except BaseException as error:  # whoever waits has to hear of it
                done.put((number, error))
                return

    def _measured(self, bench: Bench, making: _Making) -> list[MeasureResult]:
        """The outcomes of a job, those too of choices that could not be built."""
        usual = self._usual.get(making.job.task)
        if usual is None:
            failed = making.built[-1]
            reason = failed.reason if isinstance(failed, Failed) else ""
            return [MeasureResult(reason=f"the usual kernel: {reason}")] * len(making.job.choices)
        found = {
            at: MeasureResult(reason=each.reason)
            for at, each in making.built.items()
            if isinstance(each, Failed)
        }
        choices = {at: each for at, each in making.built.items() if at >= 0 and at not in found}
        if choices:
            others = tuple(each for each in choices.values() if isinstance(each, KernelLibrary))
            subject = MeasureInput(usual, others, self._inputs[making.job.task])
            found |= dict(zip(choices, bench(subject, making.job.config), strict=True))
            for each in others:
                each.remove()
        return [found[at] for at in range(len(making.job.choices))]


def _builder(target: Target, has_half: bool) -> Callable[[BuildOrder], KernelLibrary]:
    return functools.partial(build, Writer(target, has_half))


def _inputs(task: TuningTask) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Shape and dtype of what a kernel reads."""
    *read, _ = task.kernel.params
    return tuple((tuple(int(size) for size in each.shape), str(each.dtype)) for each in read)
