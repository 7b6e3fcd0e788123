"""Writes the figures of `run` for docs/performance.md.

`python -m benchmarks.gpu.language_models.figures gpu_language.json` needs no GPU.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import THROUGH
from benchmarks.gpu.steps import kind_of
from benchmarks.language_models.sides import CHECKPOINTED, TORCH
from benchmarks.pages.result import path_of, write_result

NAME = "language_models/gpu"
_PEERS = {"pytorch": TORCH, "checkpointed": CHECKPOINTED}


def rows_of(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Samples and bytes of steps whose losses agreed."""
    return [_row(found) for found in steps if "milliseconds" in found]


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    about, samples, memory = found["about"], found["milliseconds"], found["bytes"]
    said = {name: about[name] for name in ("model", "tokens", "batch", "base")}
    own = {"through": THROUGH[kind_of(about)], "ms": samples["odtc"], "bytes": memory["odtc"]}
    peers = {
        key: {"ms": samples[name], "bytes": memory[name], "ratio": _ratios(samples, name)}
        for key, name in _PEERS.items()
    }
    return said | own | peers


def _ratios(samples: Mapping[str, Sequence[float]], peer: str) -> list[float]:
    return [b / a for a, b in zip(samples["odtc"], samples[peer], strict=True)]


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.language_models.figures")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("report", type=Path, help="of benchmarks.gpu.language_models.run")
    said = json.loads(parser.parse_args(argv).report.read_text(encoding="utf-8"))
    run = {**said["run"], "machine": {"cpu": said["about"]["cuda"]}}
    write_result(path_of(NAME), run, rows_of(said["steps"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
