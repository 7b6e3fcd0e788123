"""Time of a compile: `python -m benchmarks.compile_time`.

Each model is compiled in processes of their own: with an empty cache, again, and with
another optimizer. Beside it stands what TVM's own pipeline takes for a training step of the model,
where it can make one: its import, gradients and optimizer, without any of our kernels.

Seconds are of the clock, and of the processor after them; memory is the most that the process had
in all. Pages of the model's file that it read are among that, and the system may drop them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.options import listed, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    numbers_table,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import case_of
from odtc.comparison.peers import tvm_training

# Models by their names in `benchmarks.step_time`, and their batches.
MODELS = {
    "digits": 32,
    "squeezenet": 4,
    "resnet50": 4,
    "bert_base": 4,
    "densenet121": 4,
    "smollm2_135m": 1,
}
# What is no model there: of SmolLM2-135M's shape, for as many tokens.
_DECODER, _TOKENS = "smollm2_135m", 128
_FIRST, _CHANGED = "sgd", "sgd{momentum=0.9}"
# In their order, each with the optimizer; the cache is empty before the first.
RUNS = {"cold": _FIRST, "again": _FIRST, "optimizer changed": _CHANGED}
_TVM = "TVM's own pipeline"


@dataclass(frozen=True)
class CompileRow:
    """A compile.

    Attributes:
        model: its name.
        run: of `RUNS`, or TVM's.
        wall: seconds of each stage.
        processor: seconds of each stage, of all cores.
        peak_bytes: of memory.
    """

    model: str
    run: str
    wall: Mapping[str, float]
    processor: Mapping[str, float]
    peak_bytes: int

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        wall, processor = (sum(each.values()) for each in (self.wall, self.processor))
        shares = ", ".join(f"{name} {part / wall:.0%}" for name, part in self.wall.items())
        peak = f"{self.peak_bytes / 1e6:.0f}" if self.peak_bytes else ""
        seconds = (f"{each:.1f}" if each else "" for each in (wall, processor))
        return self.model, self.run, *seconds, peak, shares


def figures_of(rows: Sequence[CompileRow]) -> Iterator[dict[str, Any]]:
    """Of each model for docs/performance.md: seconds of all rounds, and the most memory."""
    for name in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == name and row.run in RUNS]
        by_run = {run: [row for row in own if row.run == run] for run in RUNS}
        yield {
            "model": name,
            "batch": MODELS[name],
            "seconds": {run: [sum(e.wall.values()) for e in by_run[run]] for run in RUNS},
            "processor": {run: [sum(e.processor.values()) for e in by_run[run]] for run in RUNS},
            "peak_mb": max(row.peak_bytes for row in own) / 1e6,
        }


def compiles(name: str, batch: int, folder: Path, *, with_tvm: bool) -> list[CompileRow]:
    """Compiles a model by all of the runs.

    Raises:
        CalledProcessError: a compile fails.
    """
    model, loss = _model_of(name, batch)
    path = folder / "model.onnx"
    onnx.save(model, path)
    rows = []
    for run, optimizer in RUNS.items():
        given = str(path), str(batch), loss, optimizer, str(time.time())
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile_time.worker", *given],
            env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        rows.append(CompileRow(name, run, **json.loads(done.stdout)))
    if with_tvm:
        rows += _of_tvm(name, model, batch, folder)
    return rows


def _model_of(name: str, batch: int) -> tuple[onnx.ModelProto, str]:
    """A model and its loss."""
    if name == _DECODER:
        return decoder(DecoderShape(length=_TOKENS)), "cross-entropy{axis=-1}"
    case = case_of(name, batch)
    return case.model, case.loss


def _of_tvm(name: str, model: onnx.ModelProto, batch: int, folder: Path) -> Sequence[CompileRow]:
    begun = time.perf_counter()
    try:
        tvm_training.build(model, batch, folder, 0.01)
    except RuntimeError as error:
        return [CompileRow(name, f"{_TVM}: {error}", {}, {}, 0)]
    return [CompileRow(name, _TVM, {"all": time.perf_counter() - begun}, {}, 0)]


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compile_time", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", default="all", help=f"of {', '.join(MODELS)}, joined by commas")
    add("--rounds", type=positive, default=1, help="of all runs of a model")
    parser.add_argument("--no-tvm", action="store_true", help="leave TVM's own pipeline out")
    add_files(parser, "compile_time")
    add_figures(parser, "performance/compile_time")
    options = parser.parse_args()
    names = listed(options.models, list(MODELS), "model")
    console, said = terminal(), about()
    introduce(console, said, f"{len(os.sched_getaffinity(0))} cores, {options.rounds} rounds")
    table = numbers_table("model", "compile", "s", "processor, s", "memory, MB", "of the seconds")
    rows: list[CompileRow] = []
    for name in names:
        for number in range(options.rounds):
            with TemporaryDirectory() as folder:
                with_tvm = number == 0 and not options.no_tvm
                made = compiles(name, MODELS[name], Path(folder), with_tvm=with_tvm)
            rows += made
            for row in made:
                table.add_row(*row.cells())
    console.print(table)
    write_json(said, "rows", rows, options.json)
    write_figures(options.figures, said, list(figures_of(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
