"""Where odtc loses on a GPU, of the rows that docs/performance.md shows in full."""

from collections.abc import Iterator

from benchmarks.pages.measured import rows_text
from benchmarks.pages.result import read_result
from benchmarks.pages.text import median_of, table

_STEPS, _MIXED = "performance/gpu_steps", "performance/gpu_mixed"
_LANGUAGE_MODELS = "language_models/gpu"
_PEERS = {"pytorch": "PyTorch", "checkpointed": "PyTorch with gradient checkpointing"}
Cell = tuple[str, str, str, str, str]


def gpu_losses() -> Iterator[str]:
    """The section's lines, its title first."""
    steps, mixed, models = map(read_result, (_STEPS, _MIXED, _LANGUAGE_MODELS))
    lost = [*_slower(), *_larger()]
    run = steps.runs[0]
    yield "## Where odtc loses on a GPU"
    yield ""
    yield (
        f"On {run['machine']['cpu']}, PyTorch through CUDA is faster in {len([*_slower()])} of "
        f"{len(steps.rows) + len(mixed.rows)} comparisons of networks at batch 32, in float32 and "
        f"in mixed precision; their memory was not compared. Of {len(models.rows) * len(_PEERS)} "
        "comparisons of adapters of language models it is faster or takes less memory in "
        f"{len([*_larger()])}. Neither energy nor a phone's GPU was compared. "
        "[performance.md](performance.md#on-a-gpu) has all of them."
    )
    yield ""
    if lost:
        yield from table(
            ("model", "odtc through", "than", "what", "the peer's over odtc's"), lost, words=4
        )
        yield ""
    for name, result in ((_STEPS, steps), (_MIXED, mixed), (_LANGUAGE_MODELS, models)):
        yield rows_text(name, result)


def _slower() -> Iterator[Cell]:
    """Networks, those that lose most first."""
    for ratio, model, through in sorted(
        (median_of(row["ratio"]), f"{row['model']}{precision}", row["through"])
        for name, precision in ((_STEPS, ""), (_MIXED, ", mixed precision"))
        for row in read_result(name).rows
    ):
        if ratio < 1:
            yield model, through, _PEERS["pytorch"], "time", f"{ratio:.2f}"


def _larger() -> Iterator[Cell]:
    """Language models whose time or memory is more than a peer's."""
    for row in read_result(_LANGUAGE_MODELS).rows:
        model = f"{row['model']}, {row['base']}"
        for key, peer in _PEERS.items():
            ratios = {
                "time": median_of(row[key]["ratio"]),
                "memory": row[key]["bytes"] / row["bytes"],
            }
            for what, ratio in ratios.items():
                if ratio < 1:
                    yield model, row["through"], peer, what, f"{ratio:.2f}"
