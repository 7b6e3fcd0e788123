"""Sections of the page about one model, and about its plans, profiles and published figures."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from odtc.charts.chart import Axis, Chart
from odtc.charts.figure import figure
from odtc.charts.rows import Dot, Points
from odtc.charts.scales import Linear, scale_of
from odtc.charts.strips import Strip, bar, chart, samples
from odtc.cli.pictures.frontier_plot import chart_of as frontier_chart
from odtc.comparison.results import Result, by_setting
from odtc.driver.frontier import Frontier
from odtc.report.html import TableCell, legend, mark_of_engine, number, section, table, text
from odtc.report.profiled import Profiled

_MB, _MS = 1e6, 1e3
# Operators in a table.
_SHOWN = 40


def models(results: Sequence[Result]) -> Iterator[tuple[str, str, str]]:
    """The name, the anchor and the section of each model."""
    names = dict.fromkeys(each.setting.model for each in results)
    for count, name in enumerate(names):
        own = [each for each in results if each.setting.model == name]
        body = legend(dict.fromkeys(each.engine for each in own))
        body += _times(own) + _memory(own) + _throughput(own)
        yield name, f"model-{count}", section(f"model-{count}", name, body)


def _times(results: Sequence[Result]) -> str:
    """Each sample of each engine."""
    timed = [each for each in results if each.step]
    if not timed:
        return "<p>No engine was timed.</p>"
    parts = []
    for setting, group in by_setting(timed):
        milliseconds = {each.engine: [_MS * it for it in each.seconds] for each in group}
        scale = scale_of([value for values in milliseconds.values() for value in values])
        strips = [
            Strip(
                each.engine,
                f"{each.step.text(_MS, 1)}" if each.step else "",
                samples(milliseconds[each.engine], scale, mark_of_engine(each.engine)),
                mark_of_engine(each.engine),
            )
            for each in group
        ]
        title = f"Time of a step, batch {setting.batch}, threads {setting.threads}"
        parts.append(chart(title, "ms; every step, quartiles and median", scale, strips))
    return "".join(parts)


def _memory(results: Sequence[Result]) -> str:
    known = [each for each in results if each.net]
    if not known:
        return ""
    scale = Linear(max(each.net or 0 for each in known) / _MB * 1.06)
    strips = [
        Strip(
            each.engine,
            f"{(each.net or 0) / _MB:,.1f} MB",
            bar(
                (each.net or 0) / _MB, scale, mark_of_engine(each.engine).colour, _memory_tip(each)
            ),
            mark_of_engine(each.engine),
            f"batch {setting.batch}, threads {setting.threads}",
        )
        for setting, group in by_setting(known)
        for each in group
    ]
    return chart("Memory of a step", "MB: peak of the process, net of its imports", scale, strips)


def _memory_tip(result: Result) -> str:
    planned = f", of it {result.planned / _MB:,.1f} MB planned" if result.planned else ""
    peak = f"; {result.peak / _MB:,.1f} MB with the imports" if result.peak else ""
    return f"{(result.net or 0) / _MB:,.1f} MB{planned}{peak}"


def _throughput(results: Sequence[Result]) -> str:
    """Samples a second by batch, for each number of threads, where there are several batches."""
    parts = []
    for threads in dict.fromkeys(each.setting.threads for each in results):
        lines: dict[str, list[tuple[float, float]]] = {}
        for each in results:
            if each.setting.threads == threads and each.throughput:
                line = lines.setdefault(each.engine, [])
                line.append((each.setting.batch, each.throughput))
        if max(map(len, lines.values()), default=0) > 1:
            parts.append(figure(_curves(threads, lines)))
    return "".join(parts)


def _curves(threads: int, lines: Mapping[str, Sequence[tuple[float, float]]]) -> Chart:
    places = [place for line in lines.values() for place in line]
    return Chart(
        f"Throughput, threads {threads}",
        f"Samples a second of {', '.join(lines)}, by the batch.",
        Axis(Linear(max(x for x, _ in places) * 1.03), "batch"),
        Axis(Linear(max(y for _, y in places) * 1.08), "samples a second"),
        [
            Points(
                name,
                mark_of_engine(name),
                [Dot((x, y), f"batch {x:g}: {y:,.4g} samples a second") for x, y in sorted(line)],
            )
            for name, line in lines.items()
        ],
    )


def frontier(anchor: str, name: str, found: Frontier) -> str:
    """Returns the section on the time that each budget costs, by the plan."""
    body = figure(frontier_chart(found, f"Memory and time of {name}"))
    beside = (found.parameter_bytes + found.optimizer_bytes) / _MB
    body += f'<p class="quiet">Beside a budget: {beside:,.1f} MB of parameters and state.</p>'
    return section(anchor, f"Budgets of {name}", body)


def profile(anchor: str, name: str, found: Profiled) -> str:
    """Returns the section on the time of a step by operator."""
    if found.emulated:
        stamp = '<p class="warn">Emulated: these times are not a measurement, and not shown.</p>'
        return section(anchor, f"Operators of {name}", stamp)
    parts = {kind: each.seconds * _MS for kind, each in found.phases.items()}
    scale = Linear((max(parts.values(), default=0) or 1.0) * 1.06)
    strips = [
        Strip(kind, f"{value:.2f} ms", bar(value, scale, kind)) for kind, value in parts.items()
    ]
    total = sum(each.seconds for each in found.operators) or 1.0
    slowest = sorted(found.operators, key=lambda each: -each.seconds)[:_SHOWN]
    rows = [
        [
            TableCell(", ".join(each.nodes), kind="text long"),
            text(each.phase),
            number(each.seconds * _MS, 3),
            number(100 * each.seconds / total),
            text(each.kernel),
        ]
        for each in slowest
    ]
    heads = ("_operator", "_part", "ms", "% of the step", "_kernel")
    body = chart("Parts of a step", f"ms, on {found.device}", scale, strips)
    body += table(f"operators-of-{anchor}", heads, rows, "Operators")
    return section(anchor, f"Operators of {name}", body)


def published(heads: Sequence[Mapping[str, Any]]) -> str:
    """Returns the section of published figures: reference data, used in no ratio."""
    found = {
        each["title"]: each for head in heads for each in head.get("suite", {}).get("published", [])
    }
    if not found:
        return ""
    body = (
        "<p>Figures of papers, on the devices that they name. They stand beside what was measured "
        "here and are part of no ratio.</p>"
    )
    for count, each in enumerate(found.values()):
        body += f"<h3>{escape(each['title'])}</h3><p class='quiet'>{escape(each['source'])}</p>"
        rows = [[_published_cell(cell) for cell in row] for row in each["rows"]]
        body += table(f"published-{count}", _heads(each), rows, each["title"])
    return section("published", "Published figures", body)


def _published_cell(value: Any) -> TableCell:
    return text(value) if isinstance(value, str) else TableCell(f"{value:,g}", value)


def _heads(each: Mapping[str, Any]) -> list[str]:
    """Column heads, those of words marked."""
    columns = zip(*each["rows"], strict=True)
    return [
        f"_{head}" if any(isinstance(cell, str) for cell in column) else head
        for head, column in zip(each["heads"], columns, strict=True)
    ]


def machines(heads: Sequence[Mapping[str, Any]]) -> str:
    """Returns the section on the machines, versions and method of the measurements."""
    lines = []
    for head in heads:
        about = {
            "machine": ", ".join(f"{v}" for v in head["machine"].values()),
            "versions": ", ".join(f"{k} {v}" for k, v in head["versions"].items()),
            "commit": head.get("commit") or "unknown",
            "steps in a round": head["steps"],
            "memory limit": f"{head['memory_limit']:,} bytes" if head["memory_limit"] else "none",
        }
        lines += [f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in about.items()]
    how = (
        "<p>Every engine trains the same weights on the same batch by plain SGD, in a process of "
        "its own; their losses agreed before they were timed; they took turns, step by step. The "
        "time is that of a whole step with the copy of the batch. Memory is the peak of the "
        "process, net of what it had after its imports. Ratios are taken turn by turn.</p>"
    )
    return section("how", "How it was measured", f"{how}<dl>{''.join(dict.fromkeys(lines))}</dl>")
