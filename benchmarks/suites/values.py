"""Values of a suite on a device: `python -m benchmarks.suites.values --device URL`.

The first losses of each model on the device are compared with this machine's. Nothing is timed:
this is for the emulated stand-in, whose times say nothing. Rows are kept in a file, and the same
command goes on where it was interrupted; `odtc report` shows them.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.options import positive
from odtc.artifact import load
from odtc.cli.console import aligned, emit, say
from odtc.cli.measuring.bench import models_of
from odtc.cli.measuring.compare import counts
from odtc.comparison.case import Case, read_batch
from odtc.comparison.measures.measure import commit, machine, versions
from odtc.comparison.measures.parity import PARITY_STEPS
from odtc.comparison.measures.values import Values, losses_text, values_file
from odtc.comparison.ours import compile_step, threads_of, write_data
from odtc.comparison.suite import Suite, find_suite, made
from odtc.core.artifact.bundle import file_sha256
from odtc.runtime_rpc.connect import connect


def main(argv: list[str] | None = None) -> int:
    """Measures what has no row yet; 1 where losses differ."""
    args = _parser().parse_args(argv)
    suite = find_suite(args.suite)
    file = values_file(args.output, _identity(args, suite))
    there = {(row.model, row.batch) for row in file.rows}
    for model in models_of(args.models, suite):
        for batch in args.batch:
            if (model, batch) not in there:
                file.add(_values(args, suite, model, batch))
    emit(*aligned([("model", "batch", "on the device", ""), *map(_line, file.rows)]))
    return int(any(row.disagreement for row in file.rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites.values", description=__doc__)
    add = parser.add_argument
    add("--suite", default="emdl21", help="as of `odtc bench` (default: emdl21)")
    add("--models", default="", help="names joined by commas (default: all)")
    add("--batch", type=counts, default=[1], help="sizes joined by commas (default: 1)")
    add("--device", required=True, help="URL, as of `odtc train`")
    add("--target", default="android-cpu", help="of the device (default: android-cpu)")
    add("--threads", type=positive, default=1, help="(default: 1)")
    add("-o", "--output", type=Path, default=Path("values.jsonl"), help="(default: values.jsonl)")
    return parser


def _identity(args: argparse.Namespace, suite: Suite) -> dict[str, object]:
    session = connect(args.device)
    try:
        emulated = bool(session.info()["emulated"])
    finally:
        session.close()
    about = {"title": suite.title, "sha256": file_sha256(suite.path)}
    where = {"target": args.target, "emulated": emulated, "threads": args.threads}
    made_by = {"machine": machine(), "versions": versions(), "commit": commit()}
    return {"suite": about, **where, **made_by}


def _values(args: argparse.Namespace, suite: Suite, model: str, batch: int) -> Values:
    """Takes the first steps of a model, on this machine and on the device."""
    with tempfile.TemporaryDirectory(prefix="odtc-values-") as name:
        folder = Path(name)
        case = replace(made(suite, model, batch, folder), threads=args.threads)
        write_data(case, folder)
        here, there = folder / "here.odtc", folder / "there.odtc"
        say(f"{model}, batch {batch}: compile it for this machine, and for {args.target}")
        compile_step(case, here)
        other = replace(case, target=args.target)
        planned = compile_step(other, there)
        say(f"{model}, batch {batch}: {PARITY_STEPS} steps of each")
        expected, found = _losses(case, here, None), _losses(other, there, args.device)
        return Values(model, batch, case.lr, expected, found, planned)


def _losses(case: Case, artifact: Path, device: str | None) -> tuple[float, ...]:
    """Of the first steps with the batch that lies beside the artifact."""
    x, y = read_batch(artifact.parent)
    session = connect(device)
    try:
        trainer = load(artifact).trainer(session, threads=threads_of(case))
        return tuple(trainer.step(x, y, case.lr) for _ in range(PARITY_STEPS))
    finally:
        session.close()


def _line(row: Values) -> tuple[str, str, str, str]:
    return (
        row.model,
        str(row.batch),
        losses_text(row.there),
        row.disagreement or "as on this machine",
    )


if __name__ == "__main__":
    raise SystemExit(main())
