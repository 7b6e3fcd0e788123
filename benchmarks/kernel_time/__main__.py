"""The command line: see the package."""

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

import onnx

import benchmarks.kernel_time as package
import odtc
from benchmarks.ceilings import measure_ceilings
from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.clock import ClockedSession, medians
from benchmarks.kernel_time.layers import layers_of
from benchmarks.kernel_time.products import products_of
from benchmarks.kernel_time.report import other_table, product_table, rows_of, sums
from benchmarks.options import positive
from benchmarks.output import about, add_files, terminal, write_json
from benchmarks.step_time.cases import StepCase, case_of, names
from odtc.comparison.measures.measure import spread

WARM = 2


def clocked_steps(case: StepCase, steps: int) -> tuple[list[list[KernelCall]], list[float]]:
    """The calls of each of several steps, and seconds of as many steps without the clock."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        onnx.save(case.model, file)
        artifact = odtc.compile(file, batch=case.batch, loss=case.loss, dropout=False)
    session = ClockedSession()
    clocked = artifact.trainer(session, threads=case.threads)
    plain = artifact.trainer(threads=case.threads)
    calls, seconds = [], []
    for step in range(WARM + steps):
        session.calls.clear()
        clocked.step(case.x, case.y, case.lr)
        begin = time.perf_counter()
        plain.step(case.x, case.y, case.lr)
        if step >= WARM:
            seconds.append(time.perf_counter() - begin)
            calls.append(list(session.calls))
    return calls, seconds


def main() -> int:
    """Runs a model; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_time",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}.",
    )
    parser.add_argument("model", choices=names(), metavar="MODEL")
    parser.add_argument("--threads", type=positive, default=1, metavar="", help="1 by default")
    parser.add_argument("--batch", type=positive, metavar="", help="samples in a step")
    parser.add_argument("--steps", type=positive, default=10, metavar="", help="timed steps")
    add_files(parser, "kernel_time")
    options = parser.parse_args()
    console = terminal(160)
    ceilings = measure_ceilings(options.threads)
    case = dataclasses.replace(case_of(options.model, options.batch), threads=options.threads)
    steps, seconds = clocked_steps(case, options.steps)
    calls = medians(steps)
    rows = rows_of(calls, products_of(calls, layers_of(case.model, case.batch)))
    total = sum(row.seconds for row in rows)
    console.print(product_table(rows, ceilings, total), other_table(rows, ceilings, total))
    console.print(
        f"{case.name}, batch {case.batch}; medians of {options.steps} steps",
        ceilings.text(),
        *sums(rows, ceilings),
        f"all kernels: {total * 1e3:.2f} ms; a step without the clock: "
        f"{spread(seconds).text(scale=1e3)} ms",
        sep="\n",
    )
    said = about() | {
        "model": case.name,
        "batch": case.batch,
        "ceilings": dataclasses.asdict(ceilings),
        "step_seconds": seconds,
    }
    write_json(said, "kernels", rows, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
