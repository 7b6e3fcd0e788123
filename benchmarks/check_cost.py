"""The cost of `odtc check`: `python -m benchmarks.check_cost`.

Each model is checked in a process of its own, several times; the least processor time is
reported, as other load only adds to it, and the most memory in all: pages of the file that were
read are among that, and the system may drop them.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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

_WIDTH, _SHARED = 8, 5
# A process of its own: what starts a command gives it its own size to begin with.
_MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


@dataclass(frozen=True)
class CommandCost:
    """The cost of a command.

    Attributes:
        seconds: of a processor, in the system too.
        peak_bytes: of memory, at most.
    """

    seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class CheckRow:
    """A model, and what its checks took.

    Attributes:
        model: its name.
        nodes: in its graph.
        file_bytes: of its file.
        costs: of each run.
    """

    model: str
    nodes: int
    file_bytes: int
    costs: Sequence[CommandCost]

    @property
    def seconds(self) -> float:
        """The least of the runs."""
        return min(cost.seconds for cost in self.costs)

    @property
    def peak_bytes(self) -> int:
        """The most memory of a run."""
        return max(cost.peak_bytes for cost in self.costs)

    def figures(self) -> dict[str, Any]:
        """For docs/howto/check.md."""
        return {
            "model": self.model,
            "nodes": self.nodes,
            "file_mb": self.file_bytes / 1e6,
            "seconds": self.seconds,
            "peak_mb": self.peak_bytes / 1e6,
        }


def chain(length: int) -> onnx.ModelProto:
    """A product, and elementwise nodes one after the other: Mul, Add with weights, and Tanh."""
    rng = np.random.default_rng(0)
    weights = {"first.weight": rng.standard_normal((_WIDTH, _WIDTH), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "first.weight"], ["y"], "first")]
    for number in range(length):
        turn = number // 3 % _SHARED
        op_type, name = (
            ("Mul", f"norm{turn}.weight"),
            ("Add", f"norm{turn}.bias"),
            ("Tanh", ""),
        )[number % 3]
        if name:
            weights[name] = rng.uniform(0.5, 1, _WIDTH).astype(np.float32)
        read, output = [nodes[-1].output[0], name], f"y{number}"
        nodes.append(helper.make_node(op_type, list(filter(None, read)), [output], output))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", _WIDTH])
        for name in ("x", nodes[-1].output[0])
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(*command: str) -> CommandCost:
    """Measures a command that succeeds.

    Raises:
        CalledProcessError: it ends otherwise.
    """
    run = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], check=True, capture_output=True, text=True
    )
    seconds, kilobytes = run.stdout.split()
    return CommandCost(float(seconds), int(kilobytes) << 10)


def check(path: str | os.PathLike[str]) -> CommandCost:
    """Measures `odtc check` of a file."""
    return measured(sys.executable, "-m", "odtc", "check", os.fspath(path))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "one node": partial(chain, 0),
    "chain": partial(chain, 10_000),
    "decoder": partial(decoder, DecoderShape()),
}


def _row(name: str, runs: int, folder: Path) -> CheckRow:
    model, path = MODELS[name](), folder / "model.onnx"
    onnx.save(model, path)
    nodes, size = len(model.graph.node), path.stat().st_size
    del model
    return CheckRow(name, nodes, size, [check(path) for _ in range(runs)])


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check_cost", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", default="all", help=f"of {', '.join(MODELS)}, joined by commas")
    add("--runs", type=positive, default=3, help="of each check")
    add_files(parser, "check_cost")
    add_figures(parser, "howto/check_cost")
    options = parser.parse_args()
    names = listed(options.models, list(MODELS), "model")
    console, said = terminal(), about()
    introduce(console, said, f"{options.runs} runs")
    table = numbers_table("model", "nodes", "file, MB", "processor, s", "memory, MB")
    rows = []
    for name in names:
        with TemporaryDirectory() as folder:
            rows.append(_row(name, options.runs, Path(folder)))
        row = rows[-1]
        sizes = f"{row.file_bytes / 1e6:.1f}", f"{row.seconds:.1f}", f"{row.peak_bytes / 1e6:.0f}"
        table.add_row(name, f"{row.nodes:,}", *sizes)
    console.print(table)
    write_json(said, "rows", rows, options.json)
    write_figures(options.figures, said, [row.figures() for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
