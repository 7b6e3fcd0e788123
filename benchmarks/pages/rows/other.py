"""Tables of README.md, and of pages that have one each."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from benchmarks.native_runtime.found import HEADS, SIDES
from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import Figure, listed, median_of, number, short, spread_of, table


def native_runtime(result: Result) -> list[str]:
    """The runtime in C beside trainers of Python, on that runtime, on TVM and onnxruntime's."""
    sides = dict(zip(SIDES, HEADS, strict=True))
    sides = {side: sides[side] for side in SIDES if side in result.rows[0]["step_ms"]}
    rows = [
        (row["model"], str(row["batch"]), str(row["threads"]), kind, *cells)
        for row in result.rows
        for kind, cells in _native_cells(row, result.more["tensors_mb"][row["model"]], sides)
    ]
    sizes, tensors = result.more["bytes"], result.more["tensors_mb"]
    runtime = _counts(sizes["runtime"], "{count:,} with {name}")
    said = [
        f"Bytes of the runtime without symbols: {runtime}",
        f"of `program.bin`: {_counts(sizes['program.bin'])}",
    ]
    more = {
        "archives": "of an Android app's archives",
        "onnxruntime-training": "of onnxruntime-training's wheel for Python",
    }
    said += [f"{what}: {_counts(sizes[key])}" for key, what in more.items() if key in sizes]
    found = ", ".join(f"{name} {count:.2f}" for name, count in tensors.items())
    heads = ["model", "batch", "threads", "", *sides.values()]
    last = f"{'; '.join(said)}. MB of arena and arguments: {found}."
    return [*table(heads, rows, words=4), "", last]


def _native_cells(
    row: Row, tensors_mb: float, sides: Collection[str]
) -> Iterator[tuple[str, list[str]]]:
    kinds = {
        "step_ms": "step, ms",
        "ready_ms": "start to the first step, ms",
        "start_ms": "start to the end of a step, ms",
        "resident_mb": "resident, MB",
    }
    for key, kind in kinds.items():
        if key in row:
            yield kind, [short(median_of(row[key][side])) for side in sides]
    if "resident_mb" in row:
        beyond = (row["resident_mb"][side] - tensors_mb for side in sides)
        yield "resident beyond odtc's tensors, MB", [number(each) for each in beyond]


def _counts(figures: Mapping[str, int], form: str = "{name} {count:,}") -> str:
    return ", ".join(form.format(name=name, count=count) for name, count in figures.items())


def learning(result: Result) -> list[str]:
    """Held-out perplexities of adapters in odtc and in PyTorch with PEFT, and what parts them."""
    heads = ["steps", "odtc", "PyTorch with PEFT", "PyTorch begun 1e-7 apart", "gradient's error"]
    rows = [
        (
            *(str(row["step"]), f"{row['odtc']:.3f}", f"{row['torch']:.3f}"),
            " to ".join(f"{each:.3f}" for each in row["apart"]),
            f"{row['error']:.1e}" if row["step"] else "–",
        )
        for row in result.rows
    ]
    return table(heads, rows, words=0)


def same_bits(result: Result) -> list[str]:
    """Options of steps that two engines took, by the number of models and what came of them."""
    kinds = ("same", "differ", "refused", "without")
    heads = ["option", "models with the same bits", "others", "refused", "the plain step"]
    rows = ((row["what"], *(str(len(row[kind])) for kind in kinds)) for row in result.rows)
    cells = sum(len(row["same"]) for row in result.rows)
    threads = listed(result.more["threads"])
    return [
        *table(heads, rows),
        "",
        f"{cells:,} artifacts, {result.more['steps']} steps of each by each engine, "
        f"in C at {threads} threads.",
    ]


def demo(result: Result) -> list[str]:
    """As `make demo` prints it, but for its compiles: docs/performance.md has what these take."""
    lines = {"": "model", "batch": "batch", "threads": "threads", "steps": "steps"}
    cells = {head: [str(row[key]) for row in result.rows] for head, key in lines.items()}
    cells["loss, first to last"] = [
        f"{row['losses'][0]:.3f} to {row['losses'][1]:.3f}" for row in result.rows
    ]
    cells["step, ms"] = [spread_of(row["step_ms"]).text(digits=1) for row in result.rows]
    for key in ("parameters", "optimizer", "arena"):
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


# What `benchmarks.check_cost` checks, by its names.
_CHECKED = {
    "one node": "a matrix product",
    "chain": "a chain of Mul, Add and Tanh",
    "decoder": "a decoder of the shape of SmolLM2-135M, 64 tokens",
}


def check_cost(result: Result) -> list[str]:
    """The processor time and memory of `odtc check`."""
    heads = ["model", "nodes", "file, MB", "processor, s", "memory, MB"]
    return table(
        heads,
        (
            (
                _CHECKED[row["model"]],
                number(row["nodes"], 0),
                *(number(row[key]) for key in ("file_mb", "seconds")),
                number(row["peak_mb"], 0),
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


def training_data(result: Result) -> list[str]:
    """What data costs a run: memory, and time."""
    rows = (
        (row["what"], _of_unit(row["values"], row["unit"]), f"{row['goal']:g} {row['unit']}")
        for row in result.rows
    )
    return table(
        ["", "measured", "goal, at most"], ([cell.strip() for cell in row] for row in rows)
    )


def features(result: Result) -> list[str]:
    """What it saves to keep what frozen layers make of samples."""
    heads = ["network", "bytes a sample", "step, ms", "over features, ms", "run, times faster"]
    rows = (
        (
            row["network"],
            number(row["bytes_per_sample"], 0),
            *(_of_unit(row[key], "") for key in ("whole_ms", "over_ms", "ratios")),
        )
        for row in result.rows
    )
    return table(heads, rows)


def _of_unit(values: Sequence[float], unit: str) -> str:
    found = spread_of(values)
    median, low, high = (
        number(value, 2 if value < 10 else 0) for value in (found.median, found.lower, found.upper)
    )
    return f"{f'{median} {unit}'.strip()} ({low} to {high})"


def _percent(figure: Figure) -> str:
    if isinstance(figure, int | float):
        return f"{figure:.2g} %"
    found = spread_of(figure)
    return f"{found.median:.2g} % ({found.lower:.2g} to {found.upper:.2g})"


def words(result: Result) -> list[str]:
    """A table whose rows are words with numbers in them."""
    return table(result.more["heads"], (row["cells"] for row in result.rows), words=9)
