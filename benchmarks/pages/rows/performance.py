"""Tables of docs/performance.md for CPUs."""

from collections.abc import Sequence

from benchmarks.pages.result import Result, Row
from benchmarks.pages.suite_rows import not_in_suites
from benchmarks.pages.text import median_of, number, ratio, table
from odtc.comparison.results import geometric_mean

_PEERS = ("PyTorch", "onnxruntime-training")


def step_time(result: Result) -> list[str]:
    """Steps beside peers."""
    shown = not_in_suites(result)
    heads = ["model", "batch", "threads", "odtc, ms", *(f"{name} / odtc" for name in _PEERS)]
    cells = (
        (
            row["model"],
            str(row["batch"]),
            str(row["threads"]),
            number(median_of(row["ms"]), 1 if median_of(row["ms"]) < 100 else 0),
            *(ratio(row["ratios"].get(name)) for name in _PEERS),
        )
        for row in shown
    )
    return [*table(heads, cells), "", _faster_peers(result, shown)]


def _faster_peers(result: Result, shown: Sequence[Row]) -> str:
    threads = max(row["threads"] for row in shown)
    means = [
        min(median_of(each) for each in row["ratios"].values())
        for row in shown
        if row["threads"] == threads
    ]
    reached = result.more["gflops"][str(threads)]
    registers, product = (_span(reached[name]) for name in ("registers", "product"))
    return (
        f"With {threads} threads the faster peer of each network takes {min(means):.2f} to "
        f"{max(means):.2f} times odtc's time, {geometric_mean(means):.2f} in the geometric mean. "
        f"The cores did {registers} GFLOP/s in registers, and {product} in a matrix product of "
        "PyTorch."
    )


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"


def cores(result: Result) -> list[str]:
    """Steps beside PyTorch's, and how much less time each takes than on one thread."""
    heads = ["model", "threads", "odtc, ms", "PyTorch / odtc", "odtc, times as fast", "PyTorch"]
    alone = {row["model"]: row for row in result.rows if row["threads"] == 1}
    cells = (
        (
            row["model"],
            str(row["threads"]),
            number(median_of(row["ms"])),
            ratio(row["ratio"]),
            *(
                f"{median_of(alone[row['model']][key]) / median_of(row[key]):.1f}"
                for key in ("ms", "pytorch_ms")
            ),
        )
        for row in result.rows
    )
    most = max(row["threads"] for row in result.rows)
    means = [median_of(row["ratio"]) for row in result.rows if row["threads"] == most]
    mean = f"{geometric_mean(means):.2f}"
    said = f"With {most} threads PyTorch takes {mean} times odtc's time in the geometric mean."
    return [*table(heads, cells), "", said]


def compile_time(result: Result) -> list[str]:
    """Seconds of the clock, and of the processor behind them."""
    runs = list(result.rows[0]["seconds"])
    heads = ["model", "batch", *(f"{run}, s" for run in runs), "memory, MB"]
    cells = (
        (
            row["model"],
            str(row["batch"]),
            *(
                f"{median_of(row['seconds'][run]):.1f} ({median_of(row['processor'][run]):.1f})"
                for run in runs
            ),
            number(row["peak_mb"], 0),
        )
        for row in result.rows
    )
    return table(heads, cells)


def plan_time(result: Result) -> list[str]:
    """The slowest first."""
    heads = ["model", "batch", "seconds", "of the processor", "kernels, of it", "plans, of it"]
    parts = ("seconds", "processor", "kernels", "plans")
    rows = sorted(result.rows, key=lambda row: (row["batch"], -row["seconds"]))
    return table(
        heads,
        ((row["model"], str(row["batch"]), *(number(row[part]) for part in parts)) for row in rows),
    )


def plan_loops(result: Result) -> list[str]:
    """Frontiers by inner loops in C++ and in Python."""
    heads = ["a frontier of", "C++, s of the processor", "Python, s"]
    return table(
        heads, ((row["model"], number(row["native"]), number(row["python"])) for row in result.rows)
    )


def tuning(result: Result) -> list[str]:
    """How many candidates `odtc tune` measured, how long that took, and what it gained."""
    heads = ["model", "on", "candidates", "in, s", "step, times as fast"]
    counts = ("tried", "seconds")
    rows = (
        (row["model"], row["on"], *(number(row[each], 0) for each in counts), ratio(row["won"]))
        for row in result.rows
    )
    return table(heads, rows, words=2)
