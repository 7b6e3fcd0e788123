"""Tables of docs/arm.md: bounds of modelled cycles, and misses. Nothing in them is a time."""

from collections.abc import Iterator, Sequence

from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import ratio, short, table
from benchmarks.step_time.cases import NETWORKS

# Those that the page names, whether they are counted or not.
_CORES = "Cortex-A55", "Cortex-A76"
_BOUNDS = ("overlapped", "apart")


def networks(result: Result) -> list[str]:
    """Odtc beside the better peer under each bound, whose names may differ.

    All networks of `make bench`, and what else was counted.
    """
    heads = ["model", "core", "odtc, M cycles", "better peer, M cycles", "odtc / peer"]
    return table(heads, _networks(result), words=2)


def _networks(result: Result) -> Iterator[list[str]]:
    for model in dict.fromkeys((*NETWORKS, *(row["model"] for row in result.rows))):
        for core in _CORES:
            rows = [row for row in result.rows if (row["model"], row["core"]) == (model, core)]
            if rows:
                yield [f"{model}, batch {rows[0]['batch']}", core, *_beside(rows)]
        missing = [core for core in _CORES if not _is_there(result, model, core)]
        if missing:
            yield [model, " and ".join(missing), "not counted", "not counted", ""]


def _is_there(result: Result, model: str, core: str) -> bool:
    return any((row["model"], row["core"]) == (model, core) for row in result.rows)


def _beside(rows: list[Row]) -> list[str]:
    """Of one network and core: odtc's cycles, the better peer's, and their ratio.

    A peer whose losses are not odtc's is none.
    """
    ours, *peers = (row for row in rows if not row["skipped"] and not row["differs"])
    ranges = _range(*(_last(ours, bound) for bound in _BOUNDS))
    if not peers:
        reasons = dict.fromkeys(row["differs"] or row["skipped"] for row in rows[1:])
        return [ranges, ", ".join(reasons) or "not counted", ""]
    best = {bound: min(peers, key=lambda row, of=bound: _last(row, of)) for bound in _BOUNDS}
    pairs = [(_last(ours, bound), _last(best[bound], bound)) for bound in _BOUNDS]
    names = " and ".join(dict.fromkeys(row["side"] for row in best.values()))
    theirs = _range(*(other for _, other in pairs))
    return [ranges, f"{theirs} ({names})", " to ".join(ratio(one / other) for one, other in pairs)]


def _last(row: Row, bound: str) -> float:
    """Millions of cycles of the last step that was counted."""
    return row["steps"][-1][bound] / 1e6


def _range(overlapped: float, apart: float) -> str:
    return f"{short(overlapped)} to {short(apart)}"


def changes(result: Result) -> list[str]:
    """Steps before and after a change of kernels."""
    heads = ["model", "core"]
    for label in ("M cycles", "M lines missed L1, L2"):
        heads += [f"{label}, before", f"{label}, after"]
    return table(heads, map(_change, result.rows), words=2)


def _change(row: Row) -> list[str]:
    cells = [f"{row['model']}, batch {row['batch']}", row["core"]]
    before, now = row["before"], row["now"]
    for each in (before, now):
        cells.append(_range(each["overlapped"], each["apart"]))
    for each in (before, now):
        cells.append(", ".join(short(value) for value in each["missed"]))
    return cells


def codes(result: Result) -> list[str]:
    """Code for each CPU on each core, and what it takes of the first code's cycles."""
    cores = [*dict.fromkeys(row["core"] for row in result.rows)]
    return table(["model", "compiled for", "KiB", *cores], _codes(result, cores), words=2)


def _codes(result: Result, cores: Sequence[str]) -> Iterator[list[str]]:
    first = dict[tuple[str, str], Row]()
    lines = dict[tuple[str, str], dict[str, Row]]()
    for row in result.rows:
        first.setdefault((row["model"], row["core"]), row)
        lines.setdefault((row["model"], row["code"]), {})[row["core"]] = row
    for (model, code), found in lines.items():
        one = next(iter(found.values()))
        cells = [_of_code(found[core], first[model, core]) for core in cores]
        yield [f"{model}, batch {one['batch']}", code, f"{one['nbytes'] / 1024:,.0f}", *cells]


def _of_code(row: Row, first: Row) -> str:
    ranges = _range(*(row[bound] / 1e6 for bound in _BOUNDS))
    if row is first:
        return ranges
    return f"{ranges} ({', '.join(ratio(row[bound] / first[bound]) for bound in _BOUNDS)})"
