"""Writes the figures of `benchmarks.gpu.tuning.run` for docs/performance.md; needs no GPU."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import THROUGH
from benchmarks.gpu.tuning.run import by_network, saved, seconds_of
from benchmarks.pages.result import path_of, write_result


def rows_of(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each network: what the model's choices take, and what the best of those tried save."""
    return [
        {
            "model": each[0]["network"],
            "through": THROUGH[each[0]["target"].partition("{")[0].partition("-")[2]],
            "products": len(each),
            "kernels": sum(len(task["samples"]) for task in each),
            "ms": seconds_of(each) * 1e3,
            "saved": saved(each),
            "wrong": sum(task["wrong"] for task in each),
            "samples": [_samples(task) for task in each],
        }
        for each in by_network(tasks).values()
    ]


def _samples(task: Mapping[str, Any]) -> dict[str, Any]:
    """Microseconds of a product with the model's choice and the best, measured again."""
    again = {name: [round(each * 1e6, 1) for each in of] for name, of in task["again"].items()}
    choice = task["choices"][task["best"]]
    return {"workload": task["workload"], "calls": task["calls"], "choice": choice, **again}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tuning.figures")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("report", type=Path, help="of benchmarks.gpu.tuning.run")
    said = json.loads(parser.parse_args(argv).report.read_text(encoding="utf-8"))
    device, _, _ = said["tasks"][0]["on"].partition(",")
    run = {**said["run"], "machine": {"cpu": device}}
    write_result(path_of("performance/gpu_tuning"), run, rows_of(said["tasks"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
