"""Sections of a comparison's page: losses first, then the summary, then all measurements."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from odtc.charts.scales import Scale, around_one
from odtc.charts.strips import Strip, chart, key, point
from odtc.comparison.measures.losing import (
    ABSENT,
    MEASURES,
    Failure,
    Loss,
    compared_by,
    failures_of,
    losses_by,
    why_not_compared,
)
from odtc.comparison.measures.values import Values, losses_text, values_of_what
from odtc.comparison.outcome import Outcome
from odtc.comparison.results import STEADY, Result, by_setting, disturbed, geometric_mean
from odtc.report.html import TableCell, legend, mark_of_engine, number, section, table, text

_MB, _MS = 1e6, 1e3


def place_cells(result: Result) -> list[TableCell]:
    """Model, batch and threads."""
    it = result.setting
    return [
        text(it.model),
        TableCell(str(it.batch), it.batch),
        TableCell(str(it.threads), it.threads),
    ]


def losses(results: Sequence[Result]) -> str:
    """Everything that is worse with odtc than with a peer: before everything else."""
    found = [loss for measure in MEASURES for loss in losses_by(measure, results)]
    failed = list(failures_of(results))
    intro = f"<p>{escape(ABSENT)}</p>"
    if not found and not failed:
        lines = f"<p>By nothing that was measured, in none of {_compared(results)} comparisons.</p>"
        return section("loses", "Where odtc loses", lines + intro, "wins")
    heads = ("_model", "batch", "threads", "_against", "_what", "odtc", "theirs", "_unit")
    heads += ("their value over odtc's",)
    rows = [*map(_failure, failed), *map(_loss, found)]
    intro = (
        f"<p>{len(rows)} of {_compared(results)} comparisons. Below 1, the other library is the "
        f"better one.</p>{_counted(results)}{intro}"
    )
    body = intro + "<h3>Each of them</h3>" + table("losses", heads, rows, "Losses")
    return section("loses", "Where odtc loses", body, "loses")


def _compared(results: Sequence[Result]) -> int:
    return sum(len(list(compared_by(measure, results))) for measure in MEASURES)


def _counted(results: Sequence[Result]) -> str:
    """How often each peer is better, by each measure."""
    peers = dict.fromkeys(each.engine for each in results if not each.is_ours)
    rows = []
    for measure in MEASURES:
        for peer in peers:
            own = [each for each in results if each.engine == peer]
            compared = len(list(compared_by(measure, own)))
            worse = losses_by(measure, own)
            if worse:
                worst = worse[0].ratio
                cells = (TableCell(f"{len(worse)} of {compared}", len(worse)), _ratio(worst))
                rows.append([text(measure.name), text(peer), *cells])
    failed = len(list(failures_of(results)))
    if failed:
        rows.append([text("not trained"), text("any"), TableCell(str(failed), failed), text("")])
    return table("lost", ("_what", "_against", "worse in", "worst"), rows, "Losses, counted")


def _loss(loss: Loss) -> list[TableCell]:
    measure, peer = loss.measure, loss.peer
    values = (number(measure.of(each), 2) for each in (peer.own, peer))
    return [
        *place_cells(peer),
        text(peer.engine),
        text(measure.name),
        *values,
        text(measure.unit),
        _ratio(loss.ratio),
    ]


def _ratio(ratio: float) -> TableCell:
    return TableCell(f"{ratio:.2g}", ratio, "bad")


def _failure(failure: Failure) -> list[TableCell]:
    each = failure.result
    what = f"{each.engine}: {each.outcome.value}: {each.reason}"
    cells = [text(failure.others()), TableCell(what, kind="text long bad")]
    return [*place_cells(each), *cells, text("none"), text("trained"), text(""), text("")]


def summary(results: Sequence[Result]) -> str:
    """The means of ratios as tiles, and every ratio as a chart."""
    peers = list(dict.fromkeys(each.engine for each in results if not each.is_ours))
    tiles = "".join(filter(None, (_tile(name, results) for name in peers)))
    body = f'<div class="tiles">{tiles}</div>' if tiles else "<p>No peer was timed.</p>"
    for title, ratio in (("Time", _time_ratio), ("Memory, net of imports", _memory_ratio)):
        body += _ratios(title, results, ratio)
    return section("summary", "Summary", body)


def _tile(peer: str, results: Sequence[Result]) -> str:
    own = [each for each in results if each.engine == peer]
    times = [each.ratio.median for each in own if each.ratio]
    sizes = [each.memory_ratio for each in own if each.memory_ratio]
    if not times:
        return ""
    wins = sum(each >= 1 for each in times)
    memory = (
        f"<small>{geometric_mean(sizes):.2f} × the memory, net of imports "
        f"({min(sizes):.2f} to {max(sizes):.2f})</small>"
        if sizes
        else ""
    )
    return (
        f'<div class="tile"><span>{key(mark_of_engine(peer))}{escape(peer)} takes</span>'
        f"<b>{geometric_mean(times):.2f} ×</b><small>odtc's time a step: geometric mean of "
        f"{len(times)} settings ({min(times):.2f} to {max(times):.2f})</small>{memory}"
        f"<small>odtc is faster in {wins} of {len(times)}</small></div>"
    )


_Ratio = tuple[float, float, float]


def _time_ratio(result: Result) -> _Ratio | None:
    found = result.ratio
    return (found.lower, found.median, found.upper) if found else None


def _memory_ratio(result: Result) -> _Ratio | None:
    found = result.memory_ratio
    return (found, found, found) if found else None


def _ratios(title: str, results: Sequence[Result], ratio: Callable[[Result], _Ratio | None]) -> str:
    """A row for each setting, a dot for each peer."""
    peers = [each for each in results if not each.is_ours]
    known = {id(each): found for each in peers if (found := ratio(each))}
    if not known:
        return ""
    peers = [each for each in peers if id(each) in known]
    scale = around_one([value for found in known.values() for value in found])
    strips = []
    for setting, group in by_setting(peers):
        marks = "".join(_dot(each.engine, known[id(each)], scale) for each in group)
        best = min(known[id(each)][1] for each in group)
        strips.append(Strip(setting.text(), f"{best:.2f} ×", marks))
    return chart(
        f"{title}: the peer's over odtc's",
        "logarithmic; right of 1 odtc is better; at the right of all the best peer",
        scale,
        strips,
        one=True,
    ) + legend(dict.fromkeys(each.engine for each in peers))


def _dot(engine: str, ratio: _Ratio, scale: Scale) -> str:
    return point(ratio, scale, mark_of_engine(engine), f"{engine}: {ratio[1]:.2f}")


def everything(results: Sequence[Result]) -> str:
    """All numbers, a row for each engine at each setting."""
    heads = ("_model", "batch", "threads", "_engine", "_outcome", "ms a step", "× odtc's time")
    heads += ("MB net", "MB in all", "MB planned", "× odtc's memory", "samples/s", "cores")
    heads += ("GFLOP/s", "prepared, s", "loaded, s")
    body = table("results", heads, map(_numbers, results), "All results")
    return section("all", "Everything", f"<p>Sort by a head; × above 1: odtc is better.</p>{body}")


def _numbers(result: Result) -> list[TableCell]:
    step, ratio, memory = result.step, result.ratio, result.memory_ratio
    fine = result.outcome is Outcome.TRAINED
    outcome = TableCell(
        result.outcome.value, kind="text" if fine else "text bad", tip=result.reason
    )
    return [
        *place_cells(result),
        text(result.engine),
        outcome,
        TableCell(step.text(_MS), step.median * _MS) if step else _why(result),
        _better(result, ratio.median if ratio else None, ratio.text() if ratio else ""),
        *(_number(result, each and each / _MB) for each in (result.net, result.peak)),
        number(result.planned / _MB) if result.planned else TableCell("plans none", kind="quiet"),
        _better(result, memory, f"{memory:.2f}" if memory else ""),
        _number(result, result.throughput),
        _number(result, result.cores, 2),
        _number(result, result.rate and result.rate / 1e9),
        *(_number(result, each, 1) for each in (result.prepare_seconds, result.load_seconds)),
    ]


def _number(result: Result, value: float | None, digits: int = 1) -> TableCell:
    return _why(result) if value is None else number(value, digits)


def _why(result: Result) -> TableCell:
    """In place of a number that is not there."""
    return TableCell(why_not_compared(result), kind="quiet")


def _better(result: Result, value: float | None, shown: str) -> TableCell:
    if value is None:
        own = result.is_ours and result.outcome is Outcome.TRAINED
        return TableCell("odtc itself", kind="quiet") if own else _why(result)
    return TableCell(shown, value, "good" if value > 1 else "bad" if value < 1 else "")


def outcomes(results: Sequence[Result]) -> str:
    """Returns the section on which engines train which models, and why others do not."""
    engines = list(dict.fromkeys(each.engine for each in results))
    rows = []
    for _, group in by_setting(results):
        by_engine = {each.engine: each for each in group}
        rows.append([*place_cells(group[0]), *(_outcome(by_engine.get(it)) for it in engines)])
    heads = ("_model", "batch", "threads", *(f"_{name}" for name in engines))
    body = table("outcomes", heads, rows, "Who trains what")
    lines = "".join(
        f"<dt>{escape('; '.join(where))}</dt><dd>{escape(why)}</dd>"
        for why, where in _reasons(results).items()
    )
    if lines:
        body += f"<details open><summary>Why not</summary><dl>{lines}</dl></details>"
    return section("trains", "Who trains what", body)


def _reasons(results: Sequence[Result]) -> dict[str, list[str]]:
    """Returns the reasons why engines did not train, with the settings where they apply."""
    found: dict[str, list[str]] = {}
    for each in results:
        if each.reason:
            why = f"{each.engine}: {each.outcome.value}: {each.reason}"
            found.setdefault(why, []).append(each.setting.text())
    return found


def _outcome(result: Result | None) -> TableCell:
    if result is None:
        return TableCell("")
    if result.outcome is Outcome.TRAINED:
        return TableCell("✓ trains", kind="text good")
    return TableCell(f"✗ {result.outcome.value}", kind="text bad", tip=result.reason)


def values(files: Sequence[tuple[Mapping[str, Any], Sequence[Values]]]) -> str:
    """Losses on devices beside this machine's, without any times."""
    parts = []
    heads = ("_model", "batch", "rate", "_losses there", "_here", "_agree")
    for number_of, (head, rows) in enumerate(files):
        cells = [
            [
                *(
                    text(row.model),
                    TableCell(str(row.batch), row.batch),
                    TableCell(f"{row.lr:g}", row.lr),
                ),
                *(text(losses_text(each)) for each in (row.there, row.here)),
                TableCell("no" if row.disagreement else "yes", kind="text", tip=row.disagreement),
            ]
            for row in rows
        ]
        parts.append(f"<p>{escape(head['suite']['title'])}. {escape(values_of_what(head))}</p>")
        parts.append(table(f"values-{number_of}", heads, cells, "Values without times"))
    return section("values", "Values only", "".join(parts))


def doubts(results: Sequence[Result]) -> str:
    """Returns the warnings that these times may be wrong."""
    lines = []
    busy = disturbed(row for each in results for row in each.rows)
    if busy:
        lines.append(f"{busy[0].upper()}{busy[1:]}.")
    noisy = [each for each in results if not each.is_steady]
    if noisy:
        names = "; ".join(f"{each.setting.text()}, {each.engine}" for each in noisy)
        lines.append(
            f"Rounds differ by more than {STEADY - 1:.0%}, the machine was too noisy: {names}."
        )
    return "".join(f'<p class="warn">{escape(line)}</p>' for line in lines)
