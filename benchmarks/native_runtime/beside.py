"""`python -m benchmarks.native_runtime.beside`: steps in C beside programs on the same cores.

So many programs compute without end while trainers take steps, in turns of a few seconds each, as
in a training; the mean of a step has all that it waited. `--other` has the sources in C of another
runtime, such as an earlier `runtime_rpc/native/runtime`, whose steps are taken in turns with those
of this one, and have to have the same losses.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
from rich.console import Console
from rich.table import Table

import odtc
from benchmarks.native_runtime.__main__ import MEMBERS, Steps, program_of_steps, written_batch
from benchmarks.options import add_cases
from benchmarks.output import about
from benchmarks.step_time.cases import case_of
from odtc.runtime_rpc.native.build import FOLDER

# Steps that follow each other: one that has slept before it goes first.
_AT_ONCE = 5
_BATCH = {"digits": 32, "lenet": 32, "zoo/squeezenet": 4}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and prints a table; 1 where losses differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_runtime.beside")
    parser.description = __doc__
    add_cases(parser, _BATCH)
    parser.add_argument("--programs", type=int, nargs="*", default=[0, 2, 8, 20])
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--other", type=Path, metavar="", help="a folder with another runtime in C")
    args = parser.parse_args(argv)
    runtimes = {"this": FOLDER} | ({"other": args.other} if args.other else {})
    sides = [(threads, it) for threads in args.threads for it in runtimes]
    table = Table("programs", "model", *(f"threads={threads}, {it}" for threads, it in sides))
    is_same = True
    print(about()["machine"], file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        for model in args.models:
            members = members_of(model, Path(name))
            made = {
                it: program_of_steps(made_folder(members / it), members, sources)
                for it, sources in runtimes.items()
            }
            commands = [[*made[it], str(threads)] for threads, it in sides]
            for programs in args.programs:
                with busy(programs):
                    found = in_turns(commands, members / "batch.bin", args)
                count = min(len(each.losses) for each in found)
                is_same &= all(each.losses[:count] == found[0].losses[:count] for each in found)
                means = [f"{statistics.fmean(each.seconds) * 1e3:.2f}" for each in found]
                table.add_row(str(programs), model, *means)
    Console(width=100).print(table, "ms of a step, the mean")
    return int(not is_same)


def made_folder(path: Path) -> Path:
    """A new folder."""
    path.mkdir()
    return path


def members_of(model: str, folder: Path) -> Path:
    """A new folder with what a trainer in C reads of a model, and a batch."""
    path = folder / "model.onnx"
    onnx.save(case_of(model, _BATCH[model]).model, path)
    update = odtc.SGD(momentum=0.9)
    artifact = odtc.compile(path, batch=_BATCH[model], optimizer=update, dropout=False)
    members = made_folder(folder / model.replace("/", "-"))
    for each in MEMBERS:
        (members / each).write_bytes((artifact._bundle.root / each).read_bytes())
    written_batch(artifact, members)
    return members


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """A block in which so many programs compute."""
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(programs)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def in_turns(commands: Sequence[list[str]], batch: Path, args: argparse.Namespace) -> list[Steps]:
    """Trainers of which each has taken steps for as long."""
    trainers = [Steps([*command, str(batch)]) for command in commands]
    for _ in range(args.turns):
        for each in trainers:
            end = time.monotonic() + args.seconds
            while time.monotonic() < end:
                each.take(_AT_ONCE)
    for each in trainers:
        each.close()
    return trainers


if __name__ == "__main__":
    sys.exit(main())
