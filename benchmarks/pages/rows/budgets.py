"""Tables of docs/budgets.md."""

from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import Figure, listed, median_of, number, ratio, spread_of, table

NO_BUDGET = "none"


def batch_8(result: Result) -> list[str]:
    """Shares of the arena: memory of a process, and time over that of the step as it is."""
    heads = ["network", "budget, of the arena", "memory, MB", "of PyTorch's", "time"]
    rows, last = [], None
    for row in result.rows:
        name, last = "" if row["network"] == last else row["network"], row["network"]
        shares = ", ".join(f"{share:.2f}" for share in row["of_pytorch"])
        time = "1" if row["budget"] == NO_BUDGET else ratio(row["time"])
        rows.append((name, row["budget"], number(row["process_mb"], 0), shares, time))
    return [*table(heads, rows), "", "PyTorch's processes and steps:", "", *_pytorch(result)]


def _pytorch(result: Result) -> list[str]:
    heads = ["network", "memory, MB", "its time / odtc's without a budget"]
    return table(
        heads,
        (
            (name, number(peer["mb"], 0), f"{median_of(peer['time']):.2f}")
            for name, peer in result.more["pytorch"].items()
        ),
    )


def least(result: Result) -> list[str]:
    """The smallest arena that a plan of the whole batch has, without micro-batches."""
    heads = ["network", "weights, MB", "arena without a budget, MB", "least arena, MB"]
    parts = ("weights_mb", "arena_mb", "least_mb")
    return table(
        heads, ((row["network"], *(number(row[part]) for part in parts)) for row in result.rows)
    )


def batch_64(result: Result) -> list[str]:
    """Budgets of all bytes, beside onnxruntime-training."""
    ort = "onnxruntime-training"
    heads = ["network", "budget in all, MB", "micro-batches", "total, MB", "process, MB"]
    heads += [f"{ort}, MB", "less", "time, of the step without a budget", f"{ort}'s"]
    cells = (
        (
            row["network"],
            number(row["budget_mb"], 0),
            str(row["micro_batches"]),
            *(number(row[key]) for key in ("total_mb", "process_mb")),
            number(row["peer_mb"], 0),
            f"{_times_less(row):.1f} times",
            ratio(row["time"]),
            ratio(row["peer_time"]),
        )
        for row in _within(result)
    )
    return table(heads, cells)


def _within(result: Result) -> list[Row]:
    """Rows of budgets, without those of steps as they are, which others are compared with."""
    return [row for row in result.rows if row.get("budget") != NO_BUDGET]


def _times_less(row: Row) -> float:
    return row["peer_mb"] / row["process_mb"]


def two_gib(result: Result) -> list[str]:
    """Networks within 2 GiB."""
    heads = ["network", "micro-batches", "arena, MB", "total, MB", "process, MB"]
    parts = ("arena_mb", "total_mb", "process_mb")
    return table(
        heads,
        (
            (row["network"], str(row["micro_batches"]), *(number(row[part], 0) for part in parts))
            for row in result.rows
        ),
    )


def in_short(result: Result) -> list[str]:
    """Three rows of `batch_8` in a sentence."""
    chosen = (("mobilenet_v2", "60%"), ("resnet50", "58%"), ("densenet121", "75%"))
    by_budget = {(row["network"], row["budget"]): row for row in result.rows}
    said = [
        f"{name} trains in {by_budget[name, budget]['of_pytorch'][0]:.2f} of PyTorch's memory, "
        f"{median_of(by_budget[name, budget]['time']) - 1:.0%} slower than without one"
        for name, budget in chosen
    ]
    return [f"With a budget, at batch 8, {'; '.join(said)}."]


def in_short_64(result: Result) -> list[str]:
    """How many times less memory `batch_64` takes than onnxruntime-training."""
    said = [
        f"{_times_less(row):.0f} times less for {row['network'].partition(',')[0]}"
        for row in _within(result)
    ]
    return [
        f"At batch 64, a process needs less memory than onnxruntime-training's: {listed(said)}."
    ]


def measured_times(result: Result) -> list[str]:
    """Plans by measured times and by the model, in true times."""
    shares = list(result.rows[0]["times"])
    cells = ((row["by"], *(f"{row['times'][each]:.3f}" for each in shares)) for row in result.rows)
    return table(["plans by", *shares], cells)


def switching(result: Result) -> list[str]:
    """The time of a change of plan and a step, over that of the next step."""
    heads = ["network", "to an arena of, MB", "from a larger one", "from a smaller one"]
    cells = (
        (
            row["network"],
            ", ".join(f"{each:.0f}" for each in row["arenas_mb"]),
            *(", ".join(f"{median_of(each):.2f}" for each in row[way]) for way in ("down", "up")),
        )
        for row in result.rows
    )
    return table(heads, cells, words=2)


def clearing(result: Result) -> list[str]:
    """Milliseconds of a core to write to new pages."""
    heads = ["pages", "new memory, ms", "GB/s", "given back just before, ms", "GB/s"]
    cells = []
    for row in result.rows:
        cells.append([row["pages"]])
        for key in ("new", "again"):
            speed = result.more["megabytes"] / median_of(row[key])
            cells[-1] += [_whole(row[key]), f"{speed:.1f}"]
    return table(heads, cells)


def _whole(figure: Figure) -> str:
    return spread_of(figure).text(digits=0)


def huge_pages(result: Result) -> list[str]:
    """Time with huge pages over that without, a line for each run."""
    heads = ["network", "arena, MB", "pairs of steps", "time"]
    rows, last = [], None
    for row in result.rows:
        again, last = row["network"] == last, row["network"]
        arena = "" if again else f"{row['arena_mb']:g}"
        rows.append(("" if again else row["network"], arena, row["pairs"], ratio(row["time"])))
    return table(heads, rows)
