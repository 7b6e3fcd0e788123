"""The tables of a comparison: where odtc loses first, then everything."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odtc.cli.console import aligned

if TYPE_CHECKING:
    from odtc.comparison.results import Result


def table(results: "Sequence[Result]") -> list[str]:
    """A line for each engine at each setting."""
    heads = (
        *("model", "batch", "threads", "engine", "ms a step", "times odtc's", "MB", "in all"),
        *("samples/s", "cores", "prepared, s"),
    )
    return aligned([heads, *map(_line, results)])


def _line(result: "Result") -> tuple[str, ...]:
    it, step, ratio = result.setting, result.step, result.ratio
    place = (it.model, str(it.batch), str(it.threads), result.engine)
    if step is None:
        return (*place, result.outcome.value, *[""] * 6)
    return (
        *place,
        step.text(1e3),
        ratio.text() if ratio else "",
        megabytes(result.net),
        megabytes(result.peak),
        f"{result.throughput:.1f}",
        f"{result.cores:.2f}",
        "" if result.prepare_seconds is None else f"{result.prepare_seconds:.1f}",
    )


def summary(results: "Sequence[Result]") -> list[str]:
    """Summarises losses first, then means of ratios, failures, and doubts about the times."""
    from odtc.comparison.measures.losing import MEASURES, compared_by, losses_by
    from odtc.comparison.results import STEADY, disturbed, geometric_mean

    peers = [each for each in results if not each.is_ours]
    lines = [""]
    for measure in MEASURES:
        compared, worse = len(list(compared_by(measure, peers))), losses_by(measure, peers)
        if worse:
            place = f"{_where(worse[0].peer)}, {worse[0].ratio:.2g} of odtc's"
            lines.append(f"{measure.name}: odtc loses {len(worse)} of {compared}; at worst {place}")
    for name in dict.fromkeys(each.engine for each in peers):
        found = [it.ratio.median for it in peers if it.engine == name and it.ratio]
        if found:
            lines.append(
                f"{name} takes {geometric_mean(found):.2f} times odtc's time "
                f"(geometric mean of {len(found)})"
            )
    lines += [f"{_where(it)}: {it.outcome.value}: {it.reason}" for it in results if it.reason]
    agreeing = [each.apart for each in peers if each.apart is not None and each.is_steady]
    if agreeing:
        lines.append(f"rounds agree: their ratios are within {max(agreeing) - 1:.1%} of each other")
    noisy = [each for each in peers if not each.is_steady]
    lines += [
        f"{_where(it)}: rounds differ by more than {STEADY - 1:.0%}: the machine was too noisy"
        for it in noisy
    ]
    busy = disturbed(row for each in results for row in each.rows)
    return [*lines, busy] if busy else lines


def megabytes(count: float | None) -> str:
    """A number of bytes in MB."""
    return "" if count is None else f"{count / 1e6:.1f}"


def _where(result: "Result") -> str:
    return f"{result.setting.text()}, {result.engine}"
