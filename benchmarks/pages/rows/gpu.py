"""Tables of docs/performance.md for GPUs."""

from statistics import geometric_mean

from benchmarks.pages.result import Result
from benchmarks.pages.text import median_of, number, ratio, table

FAMILIES = (
    "forward",
    "data gradients",
    "weight gradients",
    "attention",
    "normalisations",
    "sums",
    "elementwise",
    "pooling",
)


def steps(result: Result) -> list[str]:
    """Steps beside PyTorch's."""
    times = ("odtc, ms", "PyTorch, ms", "PyTorch / odtc")
    heads = ["model", "through", *times, "moving data", "gaps between kernels"]
    cells = [
        (
            row["model"],
            row["through"],
            number(median_of(row["ms"])),
            number(median_of(row["pytorch_ms"])),
            ratio(row["ratio"]),
            f"{row['moves']:.0%}",
            f"{row['gaps']:.0%}",
        )
        for row in result.rows
    ]
    for through in dict.fromkeys(row["through"] for row in result.rows):
        ratios = [median_of(row["ratio"]) for row in result.rows if row["through"] == through]
        mean = f"{geometric_mean(ratios):.2f}"
        cells.append(("geometric mean", through, "-", "-", mean, "-", "-"))
    return table(heads, cells, words=2)


def families(result: Result) -> list[str]:
    """Milliseconds of a step in each family of kernels, and the share of the roofline."""
    cells = (
        (row["model"], row["through"], *(_family(row["families"].get(name)) for name in FAMILIES))
        for row in result.rows
    )
    return table(["model", "through", *FAMILIES], cells, words=2)


def _family(found: dict[str, float] | None) -> str:
    return f"{found['ms']:.1f} ms, {found['roofline']:.0%}" if found else "-"


def tuning(result: Result) -> list[str]:
    """What the best of some choices of products would save."""
    heads = ["model", "through", "products", "kernels tried", "ms of products", "tuning would save"]
    cells = (
        (
            row["model"],
            row["through"],
            str(row["products"]),
            f"{row['kernels']:,}",
            number(row["ms"]),
            f"{row['saved']:.1%}",
        )
        for row in result.rows
    )
    return table(heads, cells, words=2)
