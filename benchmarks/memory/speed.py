"""The cost of the arena in time: `python -m benchmarks.memory.speed`.

The same step is compiled with odtc's arena and with TVM's planner, whose tensors begin where their
storages do, so that kernels add no offset. Both run in one process, in turns, and in pages of one
size: a step of odtc would have huge ones. Losses are compared first. See `benchmarks.step_time` for
how a turn goes.
"""

import argparse
import ctypes
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.memory.__main__ import chosen_networks
from benchmarks.memory.cases import NETWORKS
from benchmarks.memory.rows import ALONE, geometric_mean
from benchmarks.memory.tvm_planner import planned_by_tvm
from benchmarks.options import add_sizes, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import StepCase, case_of
from benchmarks.step_time.compare import StepComparison, compare, ratio, ratios
from benchmarks.step_time.engines import OURS, OdtcEngine, TimedEngine
from benchmarks.step_time.report import draw, reasons, table_of


def tvm_engine(case: StepCase, folder: Path) -> TimedEngine:
    """As odtc, with TVM's planner."""
    own = folder / "tvm"
    own.mkdir(exist_ok=True)
    with planned_by_tvm():
        return OdtcEngine(case, own)


# Of Linux's `prctl`.
_DISABLE_HUGE_PAGES = 41
PLANNERS = {OURS: OdtcEngine, ALONE: tvm_engine}


def _compared(name: str, options: argparse.Namespace) -> StepComparison:
    case = dataclasses.replace(case_of(name, options.batch), threads=options.threads)
    with _without_huge_pages(), tempfile.TemporaryDirectory() as folder:
        return compare(case, PLANNERS, options.steps, Path(folder))


@contextmanager
def _without_huge_pages() -> Iterator[None]:
    """Keeps pages that this process first writes within the block at the usual size."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_DISABLE_HUGE_PAGES, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_DISABLE_HUGE_PAGES, 0, 0, 0, 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory.speed",
        description=(__doc__ or "").splitlines()[0],
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add_sizes(parser, batch=4, threads=1)
    add("--steps", type=positive, default=20, help="timed steps of each")
    add_files(parser, "memory_speed", ["picture"])
    add_figures(parser, "memory/speed")
    return parser


def main() -> int:
    """Compares the times; returns the exit status: 1 where losses differ."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"threads": options.threads}
    title = introduce(console, said, f"{said['machine']['cores']} cores")
    found = []
    for name in options.networks:
        console.print(f"{name} ...")
        found.append(_compared(name, options))
        write_json(said, "comparisons", found, options.json)
    console.print(table_of(found), *reasons(found), sep="\n")
    timed = [item for item in found if item.timings[1].seconds]
    mean = geometric_mean([ratio(item.timings[1], item.ours).median for item in timed])
    if mean:
        console.print(
            f"with TVM's planner a step takes {mean[0]:.3f} times the time with the arena "
            f"(geometric mean of {mean[1]} networks); raw samples: {options.json}"
        )
    times = [{"network": item.model, "time": ratios(item.timings[1], item.ours)} for item in timed]
    write_figures(options.figures, said, times)
    draw(found, title, options.picture)
    return 0 if len(timed) == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
