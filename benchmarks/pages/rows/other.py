"""Tables of README.md, and of pages that have one each."""

from collections.abc import Mapping, Sequence

from benchmarks.native_runtime.found import SIDES
from benchmarks.pages.result import Result
from benchmarks.pages.text import Figure, median_of, number, short, spread_of, table


def native_runtime(result: Result) -> list[str]:
    """The runtime in C beside trainers of Python, on that runtime and on TVM."""
    heads = ["model", "batch", "threads", "", "C", "Python", "Python on TVM"]
    kinds = {"step_ms": "step, ms", "start_ms": "start to the end of a step, ms"}
    kinds["resident_mb"] = "resident, MB"
    rows = [
        (row["model"], str(row["batch"]), str(row["threads"]), kind, *_sides(row[key]))
        for row in result.rows
        for key, kind in kinds.items()
        if key in row
    ]
    sizes = result.more["bytes"]
    programs = ", ".join(f"{name} {count:,}" for name, count in sizes["program.bin"].items())
    tensors = ", ".join(f"{name} {count:.2f}" for name, count in result.more["tensors_mb"].items())
    library = ", ".join(f"{count:,} with {level}" for level, count in sizes["runtime"].items())
    return [
        *table(heads, rows, words=4),
        "",
        f"Bytes of the runtime without symbols: {library}; of `program.bin`: {programs}. "
        f"MB of arena and arguments: {tensors}.",
    ]


def _sides(figures: Mapping[str, Figure]) -> list[str]:
    return [short(median_of(figures[name])) for name in SIDES]


def demo(result: Result) -> list[str]:
    """As `make demo` prints it, but for its compiles: docs/performance.md has what these take."""
    lines = {"": "model", "batch": "batch", "threads": "threads", "steps": "steps"}
    cells = {head: [str(row[key]) for row in result.rows] for head, key in lines.items()}
    cells["loss, first to last"] = [
        f"{row['losses'][0]:.3f} to {row['losses'][1]:.3f}" for row in result.rows
    ]
    cells["step, ms"] = [spread_of(row["step_ms"]).text(digits=1) for row in result.rows]
    for key in ("parameters", "optimizer", "step storage"):
        cells[f"{key}, bytes"] = [f"{row['bytes'][key]:,}" for row in result.rows]
    return [*(f"    {line}" for line in _columns(cells)), "", _accuracy(result)]


def _columns(cells: Mapping[str, Sequence[str]]) -> list[str]:
    rows = [(head, *found) for head, found in cells.items()]
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    return [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _accuracy(result: Result) -> str:
    ours, theirs = (result.more["accuracy"][name] for name in ("odtc", "onnxruntime"))
    return (
        f"Of the digits held out, odtc classifies {ours:.2%} correctly, and onnxruntime "
        f"{theirs:.2%} with the exported model."
    )


def check_cost(result: Result) -> list[str]:
    """The processor time and memory of `odtc check`."""
    heads = ["model", "nodes", "file, MB", "processor, s", "memory beyond the file, MB"]
    return table(
        heads,
        (
            (
                row["model"],
                number(row["nodes"], 0),
                *(number(row[key]) for key in ("file_mb", "seconds")),
                number(row["beyond_mb"], 0),
            )
            for row in result.rows
        ),
    )


def app_size(result: Result) -> list[str]:
    """Bytes of what goes into an app."""
    rows = (
        (row["what"], number(row["bytes"], 0), number(row["packed"], 0) if row["packed"] else "")
        for row in result.rows
    )
    return table(["part", "bytes", "in the archive"], rows)


def sampling(result: Result) -> list[str]:
    """The cost of samples, and of the clock of a profile, for a step."""
    heads = ["of a step", "longer by"]
    return table(heads, ((row["what"], _percent(row["longer"])) for row in result.rows))


def _percent(figure: Figure) -> str:
    if isinstance(figure, int | float):
        return f"{figure:g} %"
    found = spread_of(figure)
    return f"{found.median:g} % ({found.lower:g} to {found.upper:g})"


def words(result: Result) -> list[str]:
    """A table whose rows are words with numbers in them."""
    return table(result.more["heads"], (row["cells"] for row in result.rows), words=9)
