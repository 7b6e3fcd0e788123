"""Tables of adapters of language models, on CPUs and on GPUs."""

from collections.abc import Sequence

from benchmarks.language_models.goals import MEMORY_GOAL, STEP_GOAL
from benchmarks.pages.result import Result, Row
from benchmarks.pages.text import listed, median_of, number, ratio, table

_PEERS = ("pytorch", "checkpointed")
_RATIOS = ("PyTorch / odtc", "checkpointed / odtc")


def on_cpus(result: Result) -> list[str]:
    """Steps and memory of each base beside PyTorch's with PEFT, with and without checkpoints.

    `net` is without imports, of odtc that of a trainer in Python; `in all` is of a process of the
    native runtime, with the pages of files that it maps. A compile is in a process of its own,
    without a cache.
    """
    memory = ("net, MB", "PyTorch net, MB", "checkpointed net, MB", "in all, MB", "of files, MB")
    compiles = ("compile, s", "compile in all, MB")
    heads = ["model", "tokens", "base", "odtc, ms", "tokens/s", *_RATIOS, *memory, *compiles]
    return table(heads, map(_cpu_cells, result.rows), words=3)


def in_short(result: Result) -> list[str]:
    """What bases of 4 bits take of PyTorch's time and memory, and which reach both goals."""
    found: dict[str, list[tuple[str, float, float]]] = {}
    for row in result.rows:
        if row["base"].startswith("int4") and "ratio" in row.get("pytorch", {}):
            peer = row["pytorch"]
            shares = 1 / median_of(peer["ratio"]), row["net"] / peer["net"]
            found.setdefault(row["base"], []).append(
                (f"{row['model']} of {row['tokens']} tokens", *shares)
            )
    said = [
        f"Over {base} it takes {_range([time for _, time, _ in cases])} of that time and "
        f"{_range([memory for *_, memory in cases])} of that memory; both aims are reached by "
        f"{_reached(cases)}."
        for base, cases in found.items()
    ]
    aims = (
        f"The aims are at most {STEP_GOAL} of the time and {MEMORY_GOAL} of the memory that a step "
        "takes with PyTorch over float32, without gradient checkpointing."
    )
    return [" ".join([aims, *said])]


def _range(numbers: Sequence[float]) -> str:
    least, most = (f"{each(numbers):.2f}" for each in (min, max))
    return least if least == most else f"{least} to {most}"


def _reached(cases: Sequence[tuple[str, float, float]]) -> str:
    names = [n for n, time, memory in cases if time <= STEP_GOAL and memory <= MEMORY_GOAL]
    if len(names) == len(cases) > 1:
        return f"all {len(cases)} cases"
    return listed(names) if names else "none"


def _cpu_cells(row: Row) -> list[str]:
    case = [row["model"], str(row["tokens"]), row["base"]]
    if "ms" not in row:
        return [*case, f"not timed: {row['skipped']}", *[""] * 10]
    ms = median_of(row["ms"])
    peers = [row.get(peer, {}) for peer in _PEERS]
    net = [_mb(each.get("net")) for each in (row, *peers)]
    times = [number(ms, 0), number(row["tokens"] / ms * 1e3, 0)]
    own = [_mb(row["in_all"]), _mb(row["files"])]
    own += [number(row.get("compile_s"), 0), _mb(row.get("compile_peak"))]
    return [*case, *times, *(ratio(each.get("ratio")) for each in peers), *net, *own]


def _mb(size: float | None) -> str:
    return number(size and size / 1e6, 0)


def on_gpus(result: Result) -> list[str]:
    """Adapters over a base beside PyTorch's with PEFT, with and without checkpoints."""
    times = ("odtc, ms", "tokens/s", *_RATIOS)
    memory = ("odtc, MB", "PyTorch, MB", "checkpointed, MB")
    cells = [
        (
            row["model"],
            f"{row['batch']} x {row['tokens']}",
            row["base"],
            row["through"],
            number(median_of(row["ms"])),
            number(row["batch"] * row["tokens"] / median_of(row["ms"]) * 1e3, 0),
            *(ratio(row[peer]["ratio"]) for peer in _PEERS),
            *(number(each["bytes"] / 1e6, 0) for each in (row, *(row[peer] for peer in _PEERS))),
        )
        for row in result.rows
    ]
    return table(["model", "tokens", "base", "through", *times, *memory], cells, words=4)
