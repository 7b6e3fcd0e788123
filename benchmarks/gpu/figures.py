"""Writes the figures of `benchmarks.gpu.run` for docs/performance.md.

`python -m benchmarks.gpu.figures gpu.json` needs no GPU: a step is measured where one is rented.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages.result import path_of, write_result

# As `benchmarks.kernel_time.products` and `roofline` name families, and as the page does.
FAMILIES = {
    "forward": "forward",
    "data gradient": "data gradients",
    "weight gradient": "weight gradients",
    "attention": "attention",
    "normalisation": "normalisations",
    "sums": "sums",
    "elementwise": "elementwise",
    "pooling": "pooling",
}
# By precision, the file of a table.
STEPS = {"float32": "performance/gpu_steps", "mixed": "performance/gpu_mixed"}
THROUGH = {"opencl": "OpenCL", "vulkan": "Vulkan"}


def steps_of(networks: Iterable[Mapping[str, Any]], precision: str) -> list[dict[str, Any]]:
    """Samples of steps beside PyTorch's, of those in a precision."""
    return [_step(found) for found in _in(precision, networks) if "milliseconds" in found]


def _in(precision: str, networks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in networks if each["about"].get("precision", "float32") == precision]


def _step(found: Mapping[str, Any]) -> dict[str, Any]:
    ours, theirs = (found["milliseconds"][name] for name in ("odtc", "pytorch"))
    traced, step = found["profile"], statistics.median(ours) * 1e6
    return {
        "model": found["about"]["network"],
        "through": THROUGH[_kind(found)],
        "ms": ours,
        "pytorch_ms": theirs,
        "ratio": [b / a for a, b in zip(ours, theirs, strict=True)],
        # Of a step as it is timed: what is traced sends its batch when nothing else runs.
        "moves": max(step - (traced["span"] - traced["moves"]), 0) / step,
        "gaps": traced["gaps"] / traced["span"],
    }


def families_of(networks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Milliseconds of families in float32, and their share of the roofline."""
    return [
        {
            "model": found["about"]["network"],
            "through": THROUGH[_kind(found)],
            "families": _families(found["families"]),
        }
        for found in _in("float32", networks)
        if "families" in found
    ]


def _families(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        FAMILIES[each["name"]]: {
            "ms": each["seconds"] * 1e3,
            "roofline": each["bound"] / each["seconds"],
        }
        for each in found
        if each["name"] in FAMILIES
    }


def _kind(found: Mapping[str, Any]) -> str:
    return str(found["about"]["target"]).partition("{")[0].partition("-")[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the tables that there are figures for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.figures")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("report", type=Path, help="of benchmarks.gpu.run")
    said = json.loads(parser.parse_args(argv).report.read_text(encoding="utf-8"))
    run = {**said["run"], "machine": {"cpu": said["about"]["cuda"]}}
    for precision, name in STEPS.items():
        if steps := steps_of(said["networks"], precision):
            write_result(path_of(name), run, steps)
    if families := families_of(said["networks"]):
        write_result(path_of("performance/gpu_families"), run, families)
    return 0


if __name__ == "__main__":
    sys.exit(main())
