"""Tables of `odtc tune`: the tasks, the progress, and the gains."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from odtc.cli.console import PLAIN_SECONDS, aligned, console, say

if TYPE_CHECKING:
    from rich.table import Table

    from odtc.autoschedule.tuning.scheduler import Progress
    from odtc.autoschedule.tuning.tasks import TuningTask
    from odtc.autoschedule.tuning.tuning import TuningState
    from odtc.tuner.tuning import Comparison

# Tasks of a table while it is live: those with most of the step.
_SHOWN = 12

Watch = Callable[["TuningState"], None]
Shown = tuple[list[str], dict[str, Any]]


def listed(tasks: "Sequence[TuningTask]") -> Shown:
    """The tasks of a step, as lines and as data."""
    rows = [("of step", "calls", "product", "tensors")]
    rows += [(f"{t.share:.1%}", str(t.calls), *_product(t)) for t in tasks]
    data = [
        {"workload": t.workload, "kernels": list(t.names), "calls": t.calls, "share": t.share}
        for t in tasks
    ]
    whole = f"{len(tasks)} tasks, {sum(t.share for t in tasks):.1%} of the step by its model"
    return [*aligned(rows), whole], {"tasks": data}


def _product(task: "TuningTask") -> tuple[str, str]:
    """The family of a task, and the shapes of its tensors."""
    shapes = ["x".join(str(int(n)) for n in each.shape) or "1" for each in task.kernel.params]
    return task.workload.partition("(")[0], " ".join(shapes)


@contextmanager
def watching(tasks: "Sequence[TuningTask]") -> Iterator[Watch]:
    """Yields what is told the state: a table that is live, or a plain line now and then."""
    if not console().is_terminal:
        yield _plain()
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        yield lambda state: live.update(_table(tasks, state), refresh=True)


def _plain() -> Watch:
    last = time.monotonic()

    def watch(state: "TuningState") -> None:
        nonlocal last
        if state.why or time.monotonic() - last >= PLAIN_SECONDS:
            last = time.monotonic()
            say(_said(state))

    return watch


def _said(state: "TuningState") -> str:
    why = f"; {state.why}" if state.why else ""
    return (
        f"{state.measured} trials and {state.again} longer ones in {state.elapsed:.0f} s "
        f"({state.rate:.0f} a minute), {state.failed} failed, {state.known} known from before; "
        f"estimated step {state.step:.1%} of what it was{why}"
    )


def _table(tasks: "Sequence[TuningTask]", state: "TuningState") -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("product", "tensors", "of step", "trials", "ms", "gain", box=box.SIMPLE)
    order = sorted(range(len(tasks)), key=lambda n: -state.tasks[n].trials)[:_SHOWN]
    for number in sorted(order):
        task, progress = tasks[number], state.tasks[number]
        cells = (*_product(task), f"{task.share:.1%}", *_cells(task, progress))
        table.add_row(*map(Text, cells))
    table.caption = Text(_said(state))
    return table


def _cells(task: "TuningTask", progress: "Progress") -> tuple[str, str, str]:
    ms = "" if progress.usual is None else f"{progress.usual / task.calls * 1e3:.3f}"
    return str(progress.trials), ms, f"{progress.gain:.2f}" if progress.trials else ""


def report(tasks: "Sequence[TuningTask]", state: "TuningState", compared: "Comparison") -> Shown:
    """Reports the gains, by task and for the step, as lines and as data."""
    rows = [("product", "tensors", "calls", "trials", "ms", "gain")]
    for task, progress in zip(tasks, state.tasks, strict=True):
        trials, ms, gain = _cells(task, progress)
        shown = "emulated" if compared.emulated and ms else ms
        if progress.trials:
            rows.append((*_product(task), str(task.calls), trials, shown, gain))
    data = {
        "tasks": [
            {
                "workload": task.workload,
                "kernels": list(task.names),
                "calls": task.calls,
                "trials": progress.trials,
                "seconds": None if progress.usual is None else progress.usual / task.calls,
                "gain": progress.gain,
            }
            for task, progress in zip(tasks, state.tasks, strict=True)
        ],
        "measured": state.measured,
        "failed": state.failed,
        "known": state.known,
        "again": state.again,
        "rate": state.rate,
        "seconds": state.elapsed,
        "stopped": state.why,
        "tuned_kernels": compared.tuned,
        "step_before": list(compared.before),
        "step_after": list(compared.after),
        "emulated": compared.emulated,
    }
    return [*aligned(rows), _said(state), *_steps(compared)], data


def _steps(compared: "Comparison") -> list[str]:
    said = f"{compared.tuned} kernels of the step have other loops than before"
    if compared.emulated:
        return [said, "EMULATED: the times of steps are not shown"]
    before, after = (1e3 * median(each) for each in (compared.before, compared.after))
    ratios = compared.ratios
    return [
        said,
        f"step: {before:.2f} ms before, {after:.2f} ms after, medians of {len(ratios)} in turns; "
        f"{median(ratios):.3f} times as fast ({ratios[0]:.3f} to {ratios[-1]:.3f})",
    ]
