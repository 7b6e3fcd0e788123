"""Compiles the products of training steps, each with the model's choice and some others.

Choices are those that a session of `odtc tune` tries first: of all decisions in turns, the next
candidate in the model's order.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from rich.console import Console

from benchmarks.gpu.prepare import copy_runtime, targets_of
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import FULL
from benchmarks.options import add_sizes, listed, positive
from odtc.autoschedule.tuning.build import BuildOrder, build, kernel_text, read_by
from odtc.autoschedule.tuning.search import search
from odtc.autoschedule.tuning.tasks import TuningTask, Writer
from odtc.backends.decisions import Choice
from odtc.backends.targets import parse_target
from odtc.core.errors import OdtcError
from odtc.core.process.progress import silent
from odtc.driver.options.step_options import StepOptions
from odtc.tuner.tuning import work_on

NETWORKS = ("resnet18", "mobilenet_v2", "vit_tiny", "bert_base")


def main() -> None:
    """Writes a folder for each product: its kernels, and what they are of."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tuning.prepare")
    add = partial(parser.add_argument, metavar="")
    parser.add_argument("folder", type=Path)
    networks = partial(listed, known=list(FULL), what="network")
    usual = ",".join(NETWORKS)
    add("--networks", type=networks, default=usual, help="by name, joined by commas")
    add_sizes(parser, batch=32)
    add("--target", default="host-vulkan{mcpu=x86-64-v3}", help="a|b{mcpu=c} is two")
    add("--choices", type=positive, default=8, help="of each product, beside the model's")
    args = parser.parse_args()
    copy_runtime(args.folder)
    console = Console(stderr=True)
    for name in args.networks:
        for target in targets_of(args.target):
            prepare(name, args.batch, target, args.folder, args.choices, console)


def prepare(
    name: str, batch: int, target: str, folder: Path, choices: int, console: Console
) -> None:
    """Compiles the products of one network."""
    entry = dataclasses.replace(FULL[name], batch=batch)
    with tempfile.TemporaryDirectory() as made:
        model = Path(made, "model.onnx")
        export(make(entry), next(batches(entry))[0], model)
        options = StepOptions(batch=batch, loss=entry.loss)
        work = work_on(model, parse_target(target).resolved(), options, silent)
    writer = Writer(work.target, work.step.source.has_half)
    for number, task in enumerate(work.tasks):
        at = folder / f"{name}-{work.target.kind}-{number:03d}"
        built = [
            each
            for each in islice(_choices(writer, task), choices + 1)
            if _build(writer, task, each, at)
        ]
        said = {
            "network": name,
            "target": work.target.spec,
            "workload": task.workload,
            "calls": task.calls,
            "reads": [dataclasses.asdict(each) for each in read_by(task.kernel)],
            "choices": built,
        }
        (at / "task.json").write_text(json.dumps(said), encoding="utf-8")
        console.print(f"{at.name}: {len(built)} kernels")


def _choices(writer: Writer, task: TuningTask) -> Iterator[Choice]:
    """The model's choice, and those that a session tries while none is better."""
    yield {}
    session = search(partial(writer.draft, task.kernel))
    gains = None
    while True:
        try:
            batch = session.send(gains)  # pyright: ignore[reportArgumentType] - None begins it
        except StopIteration:
            return
        yield from batch
        gains = [1.0] * len(batch)


def _build(writer: Writer, task: TuningTask, choice: Choice, folder: Path) -> bool:
    """Compiles a kernel; whether the target takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = len(list(folder.glob("*.so")))
    try:
        build(writer, BuildOrder(kernel_text(task.kernel), choice, folder / f"{name}.so"))
    except OdtcError:
        return False
    return True


if __name__ == "__main__":
    main()
