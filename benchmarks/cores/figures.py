"""Writes the figures of `benchmarks.cores.run` for docs/performance.md."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.result import path_of, write_results

NAME = "performance/cores"


def rows_of(steps: Iterable[Mapping[str, Any]], run: int = 0) -> list[dict[str, Any]]:
    """Samples of steps beside PyTorch's, of those whose losses agree."""
    return [_row(step, run) for step in steps if "milliseconds" in step]


def _row(step: Mapping[str, Any], run: int) -> dict[str, Any]:
    ours, theirs = (step["milliseconds"][name] for name in ("odtc", "pytorch"))
    return {
        "run": run,
        "model": step["about"]["network"],
        "batch": step["about"]["batch"],
        "threads": step["threads"],
        "ms": ours,
        "pytorch_ms": theirs,
        "ratio": [b / a for a, b in zip(ours, theirs, strict=True)],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores.figures")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("report", type=Path, nargs="+", help="of benchmarks.cores.run")
    found = [json.loads(path.read_text("utf-8")) for path in parser.parse_args(argv).report]
    rows = [row for run, said in enumerate(found) for row in rows_of(said["steps"], run)]
    rows.sort(key=lambda row: (row["model"], row["threads"]))
    write_results(path_of(NAME), [_run(said) for said in found], rows)
    return 0


def _run(said: Mapping[str, Any]) -> dict[str, Any]:
    # Where a step is timed, odtc need not be installed.
    versions = {"odtc": said["steps"][0]["about"]["odtc"], **said["run"]["versions"]}
    busy = max(step.get("busy", 0) for step in said["steps"])
    return {**said["run"], "versions": versions, "busy": round(busy, 2)}


if __name__ == "__main__":
    sys.exit(main())
