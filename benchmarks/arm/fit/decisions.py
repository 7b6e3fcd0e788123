"""Products of a network, counted with each choice of one of their decisions."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from tvm import tirx

from benchmarks.arm.cores import Core
from benchmarks.arm.figures import Figures
from benchmarks.arm.fit.kernels import counted
from benchmarks.step_time.cases import StepCase
from odtc.autoschedule.tuning.tasks import TuningTask, Writer, tasks_of
from odtc.backends.decisions import Choice, Value
from odtc.backends.targets import Target, parse_target
from odtc.core.process.progress import silent
from odtc.driver.options.step_options import StepOptions
from odtc.driver.preparation import prepare

# What a count of one thread says nothing of.
_OF_THREADS = frozenset({"tasks", "shares"})


@dataclass(frozen=True)
class Alternative:
    """A product with one decision that is not the model's.

    Attributes:
        decision: its name.
        value: that was counted.
        figures: on each core.
    """

    decision: str
    value: Value
    figures: Sequence[Figures]


@dataclass(frozen=True)
class CountedProduct:
    """A product of a step.

    Attributes:
        task: what it computes, and how often.
        usual: what it does on each core as the model has it.
        others: with one decision that is another.
    """

    task: TuningTask
    usual: Sequence[Figures]
    others: Sequence[Alternative]

    def gains(self, at: int, core: Core) -> Iterator[tuple[str, Value, float]]:
        """Decision, value, and cycles of a step that it would save on a core."""
        usual = self.usual[at].overlapped(core)
        for each in self.others:
            saved = usual - each.figures[at].overlapped(core)
            yield each.decision, each.value, saved * self.task.calls


def tasks_for(case: StepCase, target: Target, most: int) -> list[TuningTask]:
    """The products with most of a step, by the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(case.model, path)
        options = StepOptions(
            batch=case.batch,
            loss=case.loss,
            freeze=case.frozen,
            freeze_batch_norm=bool(case.frozen),
        )
        step = prepare(path, target, options, silent)
        return tasks_of(*step.kernels)[:most]


def counted_products(
    tasks: Sequence[TuningTask], target: str, cores: Sequence[Core], most: int
) -> list[CountedProduct]:
    """Counts products as the model has them, and with other candidates of each decision.

    Args:
        tasks: the products.
        target: that they are compiled for.
        cores: at most four.
        most: other candidates of a decision, the likely ones.

    Raises:
        BuildError: the emulator is not installed, or a kernel failed.
    """
    writer = Writer(parse_target(target).resolved())
    choices = [[*_choices(writer, task.kernel, most)] for task in tasks]
    kernels = [
        writer.written(task.kernel, choice)[0]
        for task, some in zip(tasks, choices, strict=True)
        for choice in some
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = iter(counted(kernels, target, cores, Path(folder)))
    products: list[CountedProduct] = []
    for task, (_, *others) in zip(tasks, choices, strict=True):
        usual = next(found)
        more = [
            Alternative(name, value, next(found))
            for choice in others
            for name, value in choice.items()
        ]
        products.append(CountedProduct(task, usual, more))
    return products


def _choices(writer: Writer, kernel: tirx.PrimFunc, most: int) -> Iterator[Choice]:
    """The model's, and others with one decision each; each kernel once."""
    usual = writer.draft(kernel, {})
    assert usual
    codes = {usual.code}
    yield {}
    for name, decision in usual.decisions.items():
        left = 0 if name in _OF_THREADS else most
        for value in decision.candidates:
            draft = writer.draft(kernel, {name: value}) if left else None
            if draft and draft.code not in codes:
                codes.add(draft.code)
                left -= 1
                yield {name: value}
