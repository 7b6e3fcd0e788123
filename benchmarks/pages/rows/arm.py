"""Tables of docs/arm.md: bounds of modelled cycles, and misses. Nothing in them is a time."""

from collections.abc import Iterator

from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import ratio, short, table

_OURS = "odtc"
_BOUNDS = ("overlapped", "apart")


def networks(result: Result) -> list[str]:
    """Odtc beside the better peer under each bound, whose names may differ."""
    heads = ["model", "core", "odtc, M cycles", "better peer, M cycles", "odtc / peer"]
    return table(heads, _networks(result), words=2)


def _networks(result: Result) -> Iterator[list[str]]:
    cases = dict.fromkeys((row["model"], row["batch"], row["core"]) for row in result.rows)
    for case in cases:
        rows = [row for row in result.rows if (row["model"], row["batch"], row["core"]) == case]
        ours, *peers = (row for row in rows if not row["skipped"])
        best = {bound: min(peers, key=lambda row, of=bound: _last(row, of)) for bound in _BOUNDS}
        pairs = [(_last(ours, bound), _last(best[bound], bound)) for bound in _BOUNDS]
        names = " and ".join(dict.fromkeys(row["side"] for row in best.values()))
        yield [
            f"{case[0]}, batch {case[1]}",
            case[2],
            _range(*(one for one, _ in pairs)),
            f"{_range(*(other for _, other in pairs))} ({names})",
            " to ".join(ratio(one / other) for one, other in pairs),
        ]


def _last(row: Row, bound: str) -> float:
    """Millions of cycles of the last step that was counted."""
    return row["steps"][-1][bound] / 1e6


def _range(overlapped: float, apart: float) -> str:
    return f"{short(overlapped)} to {short(apart)}"


def changes(result: Result) -> list[str]:
    """Steps before and after a change of kernels."""
    heads = ["model", "core"]
    for label in ("M cycles", "M lines missed L1, L2"):
        heads += [f"{label}, before", "now"]
    return table(heads, map(_change, result.rows), words=2)


def _change(row: Row) -> list[str]:
    cells = [f"{row['model']}, batch {row['batch']}", row["core"]]
    before, now = row["before"], row["now"]
    for each in (before, now):
        cells.append(_range(each["overlapped"], each["apart"]))
    for each in (before, now):
        cells.append(", ".join(short(value) for value in each["missed"]))
    return cells
