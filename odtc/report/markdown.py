"""Tables of the page as Markdown, for a README or an issue."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

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
from odtc.comparison.measures.measure import cpu_text
from odtc.comparison.measures.values import Values, losses_text, values_of_what
from odtc.comparison.outcome import Outcome
from odtc.comparison.results import (
    STEADY,
    Result,
    by_setting,
    disturbed,
    geometric_mean,
    results_of,
)
from odtc.report.read import Material


def markdown(material: Material, title: str) -> str:
    """For each file of rows: where odtc loses, the means, and a line for each setting.

    Args:
        material: of the page; only its rows are used.
        title: of the text.
    """
    lines = [f"# {title}", "", *_KEY]
    results = [results_of(rows) for rows in material.rows]
    names = _titles(material.heads, results)
    for name, head, found in zip(names, material.heads, results, strict=True):
        lines += ["", *_file(name, head, found)]
    for head, rows in material.values:
        lines += ["", *_values(head, rows)]
    return "\n".join(lines) + "\n"


_KEY = (
    "A time is the median of odtc's training steps; a peer's is the median of its time over",
    "odtc's in the same turn, with quartiles. Memory is what a process grew by since its imports.",
    'Above 1, odtc is better. "Where odtc loses" names every row below it that is worse with odtc,',
    f"with the peer's value over odtc's. {ABSENT}",
)


# Models that a title names; of more it has the number.
_NAMED = 3


def _titles(
    heads: Sequence[Mapping[str, Any]], results: Sequence[Sequence[Result]]
) -> Iterator[str]:
    """The suite of each file.

    Of several files of one suite it says the batches and models; the CPU, where these are the same.
    """
    suites = [_plain(head.get("suite", {}).get("title", "Comparison")) for head in heads]
    extents = [_plain(_extent(found)) for found in results]
    files = [*zip(suites, extents, strict=True)]
    for suite, extent, head in zip(suites, extents, heads, strict=True):
        if suites.count(suite) == 1:
            yield suite
        else:
            cpu = _plain(cpu_text(head.get("machine", {})))
            yield f"{suite}{f': {extent}' if files.count((suite, extent)) == 1 else f', on {cpu}'}"


def _extent(results: Sequence[Result]) -> str:
    """`batch 1, 4; 16 models`; a few models are named."""
    batches = sorted({each.setting.batch for each in results})
    models = list(dict.fromkeys(each.setting.model for each in results))
    which = ", ".join(models) if len(models) <= _NAMED else f"{len(models)} models"
    return f"batch {', '.join(map(str, batches))}; {which}"


def _file(title: str, head: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield _where(head)
    if not results:
        yield from ("", "No rows: the comparison ended before its first round did.")
        return
    yield from _doubts(results)
    yield from _section("Where odtc loses", _losses(results))
    yield from _section("On average", _means(results))
    yield from _section("Every setting", _settings(results))
    yield from _section("Why not", _reasons(results))


def _values(head: Mapping[str, Any], rows: Sequence[Values]) -> Iterator[str]:
    yield f"## {_plain(head['suite']['title'])}: values only"
    yield ""
    yield _plain(values_of_what(head))
    yield ""
    yield from _table_head(("model", "batch", "rate", "losses there", "here", "agree"))
    for row in rows:
        there, here = (losses_text(each) for each in (row.there, row.here))
        agree = row.disagreement and "no"
        yield _line((row.model, str(row.batch), f"{row.lr:g}", there, here, agree or "yes"))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", f"### {title}", "", *found)


def _where(head: Mapping[str, Any]) -> str:
    machine, versions = head.get("machine", {}), head.get("versions", {})
    parts = [f"{cpu_text(machine)}, {machine.get('cores', '?')} cores"]
    parts += [f"{name} {version}" for name, version in versions.items()]
    parts += [f"commit {head['commit'][:12]}"] if head.get("commit") else []
    parts += [f"timed steps of each in a round: {head['steps']}"] if "steps" in head else []
    if head.get("memory_limit"):
        parts.append(f"{head['memory_limit'] / 1e9:g} GB for each process")
    return _plain("; ".join(parts)) + "."


def _doubts(results: Sequence[Result]) -> Iterator[str]:
    busy = disturbed(row for each in results for row in each.rows)
    if busy:
        yield ""
        yield f"**{_plain(busy[0].upper() + busy[1:])}.**"
    noisy = [each for each in results if not each.is_steady]
    if noisy:
        names = "; ".join(_place(each) for each in noisy)
        yield ""
        yield f"**Rounds differ by more than {STEADY - 1:.0%}, the machine was noisy: {names}.**"


def _losses(results: Sequence[Result]) -> Iterator[str]:
    """A line for each measure and each peer that is better by it, which names every setting."""
    lines = [*map(_failed, failures_of(results))]
    peers = dict.fromkeys(each.engine for each in results if not each.is_ours)
    for measure, peer in product(MEASURES, peers):
        own = [each for each in results if each.engine == peer]
        compared, worse = len(list(compared_by(measure, own))), losses_by(measure, own)
        if worse:
            said = f"{measure.name}, {peer}, in {len(worse)} of {compared}: "
            lines.append(_plain(f"- {said}{'; '.join(map(_lost, worse))}"))
    yield from lines or ["By nothing that was measured."]


def _failed(failure: Failure) -> str:
    it, others = failure.result, _plain(failure.others())
    return f"- not trained: {_place(it)}: {it.outcome.value}; trained by {others}"


def _lost(loss: Loss) -> str:
    it = loss.peer.setting
    return f"{it.model}, batch {it.batch}, threads {it.threads}: {loss.ratio:.2g}"


def _means(results: Sequence[Result]) -> Iterator[str]:
    peers = [each for each in results if not each.is_ours]
    yield from _table_head(("", "settings", "time over odtc's", "memory over odtc's"))
    for name in dict.fromkeys(each.engine for each in peers):
        own = [each for each in peers if each.engine == name]
        times = [each.ratio.median for each in own if each.ratio]
        sizes = [size for each in own if (size := each.memory_ratio)]
        yield _line((name, str(len(times)), _mean(times), _mean(sizes)))


def _mean(values: Sequence[float]) -> str:
    """The geometric mean, and the range."""
    if not values:
        return "not compared"
    return f"{geometric_mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _settings(results: Sequence[Result]) -> Iterator[str]:
    engines = list(dict.fromkeys(each.engine for each in results))
    heads = ["model", "batch", "threads", f"{engines[0]}, ms", "MB"]
    for name in engines[1:]:
        heads += [f"{name}, time", "memory"]
    yield from _table_head(heads)
    for setting, group in by_setting(results):
        by_engine = {each.engine: each for each in group}
        cells = [setting.model, str(setting.batch), str(setting.threads)]
        cells += _absolute(by_engine.get(engines[0]))
        for name in engines[1:]:
            cells += _relative(by_engine.get(name))
        yield _line(cells)


def _absolute(result: Result | None) -> tuple[str, str]:
    if result is None or result.step is None or result.net is None:
        why = result.outcome.value if result else "not run"
        return why, why
    return f"{result.step.median * 1e3:,.1f}", f"{result.net / 1e6:,.1f}"


def _relative(result: Result | None) -> tuple[str, str]:
    """The cells of a ratio; the engine's own figures where odtc has none, or why there are none."""
    if result is None or result.outcome is not Outcome.TRAINED:
        why = result.outcome.value if result else "not run"
        return why, why
    why = why_not_compared(result)
    if result.ratio is None:
        return " ms, ".join(_absolute(result)) + " MB", why
    memory = result.memory_ratio
    return result.ratio.text(), f"{memory:.2f}" if memory else why


def _reasons(results: Sequence[Result]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for each in results:
        if each.reason:
            why = f"{each.engine}: {each.outcome.value}: {each.reason}"
            found.setdefault(why, []).append(each.setting.text())
    for why, where in found.items():
        yield _plain(f"- {'; '.join(where)}: {why}")


def _place(result: Result) -> str:
    return _plain(f"{result.setting.text()}, {result.engine}")


def _table_head(heads: Sequence[str]) -> tuple[str, str]:
    rule = "|".join("---" if at == 0 else "---:" for at in range(len(heads)))
    return _line(heads), f"|{rule}|"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(words: str) -> str:
    """Escapes foreign text, so that nothing in it is markup."""
    for mark in "\\`*_<>[]":
        words = words.replace(mark, f"\\{mark}")
    return " ".join(words.split())
