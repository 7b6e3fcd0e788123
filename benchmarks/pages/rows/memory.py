"""Tables of docs/memory.md."""

from collections.abc import Mapping

from benchmarks.pages.result import Result
from benchmarks.pages.text import number, ratio, table
from odtc.comparison.results import geometric_mean

PEERS = {
    "TVM": "TVM's planner",
    "onnxruntime-training": "onnxruntime-training",
    "PyTorch": "PyTorch",
}


def networks(result: Result) -> list[str]:
    """The memory of a step, beside peers."""
    heads = ["network", "arena, MB", "total, MB", *(f"/ {name}" for name in PEERS.values())]
    heads += ["beyond, MB", "of it files"]
    rows = [
        (
            row["network"],
            *(number(row[key]) for key in ("arena_mb", "total_mb")),
            *(_share(row["shares"], name) for name in PEERS),
            *(number(row[key]) for key in ("beyond_mb", "files_mb")),
        )
        for row in result.rows
    ]
    shares = ([row["shares"].get(name) for row in result.rows] for name in PEERS)
    means = (geometric_mean(found) if (found := [*filter(None, e)]) else None for e in shares)
    rows.append(("geometric mean", "", "", *(number(mean, 2) for mean in means), "", ""))
    above = f"{result.more['above_bound'] - 1:.1%}"
    bound = (
        f"Arenas are within {above} of the lower bound for their order of calls; "
        f"{result.more['at_bound']} of {len(result.rows)} are at it."
    )
    return [*table(heads, rows), "", bound]


def _share(shares: Mapping[str, float], name: str) -> str:
    return f"{shares[name]:.2f}" if name in shares else ""


def speed(result: Result) -> list[str]:
    """The time of a step by TVM's planner over that with odtc's arena."""
    heads = ["network", "time with TVM's planner / with the arena"]
    return table(heads, ((row["network"], ratio(row["time"])) for row in result.rows))
