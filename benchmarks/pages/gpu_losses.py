"""Where odtc loses on a GPU, of the rows that docs/performance.md shows in full."""

from collections.abc import Iterator

from benchmarks.pages.measured import when_text
from benchmarks.pages.result import read_result
from benchmarks.pages.text import median_of, table

_STEPS = "performance/gpu_steps"


def gpu_losses() -> Iterator[str]:
    """The section's lines, its title first."""
    result = read_result(_STEPS)
    ratios = sorted((median_of(row["ratio"]), row["model"], row["through"]) for row in result.rows)
    cells = [(model, through, f"{ratio:.2f}") for ratio, model, through in ratios if ratio < 1]
    run = result.runs[0]
    yield "## Where odtc loses on a GPU"
    yield ""
    yield (
        f"PyTorch through CUDA is faster in {len(cells)} of {len(result.rows)} comparisons on "
        f"{run['machine']['cpu']}, at batch 32; neither memory nor energy was compared there, and "
        "no GPU of a phone. [performance.md](performance.md#on-a-gpu) has all of them."
    )
    yield ""
    yield from table(("model", "odtc through", "PyTorch's time over odtc's"), cells, words=2)
    yield ""
    ages = dict.fromkeys(when_text(each) for each in result.runs)
    yield f"Rows: [gpu_steps.json](results/{_STEPS}.json); {' and '.join(ages)}."
