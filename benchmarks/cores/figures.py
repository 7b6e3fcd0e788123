"""Writes the figures of `benchmarks.cores.run` for docs/performance.md."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.result import path_of, write_result

NAME = "performance/cores"


def rows_of(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Samples of steps beside PyTorch's, of those whose losses agree, with few threads first."""
    found = [_row(step) for step in steps if "milliseconds" in step]
    return sorted(found, key=lambda row: (row["model"], row["threads"]))


def _row(step: Mapping[str, Any]) -> dict[str, Any]:
    ours, theirs = (step["milliseconds"][name] for name in ("odtc", "pytorch"))
    return {
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
    parser.add_argument("report", type=Path, help="of benchmarks.cores.run")
    said = json.loads(parser.parse_args(argv).report.read_text(encoding="utf-8"))
    run, steps = said["run"], said["steps"]
    # Where a step is timed, odtc need not be installed.
    run["versions"] = {"odtc": steps[0]["about"]["odtc"], **run["versions"]}
    run["busy"] = round(max(step.get("busy", 0) for step in steps), 2)
    write_result(path_of(NAME), run, rows_of(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
