"""The whole path on this machine, in a few minutes: `python -m benchmarks.demo`.

Two ONNX models are compiled for host-cpu and trained. The digits convnet learns scikit-learn's
handwritten digits, goes back to ONNX, and has to be as good in onnxruntime. SqueezeNet, at its full
image size, takes a dozen steps on one batch of noise, which it has to begin to memorise.

Exits with 1 where one of the two does not hold.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich import box
from rich.console import Console
from rich.table import Table

import odtc
from benchmarks.models.digits import digits_data, digits_model
from benchmarks.models.zoo import zoo_model
from benchmarks.output import about, add_figures, write_figures, write_json
from odtc.comparison.measures.measure import core_count, cpu_text, spread
from odtc.core.artifact.manifest import Sizes
from odtc.core.disk.content_store import nothing_kept

ACCURACY = 0.97
EPOCHS = 15
NOISE_STEPS = 12


@dataclass(frozen=True)
class Training:
    """One model's training.

    Attributes:
        model: its name.
        batch: samples in a step.
        threads: worker threads of a step.
        compile_seconds: from ONNX file to artifact.
        losses: of each step, before its update.
        step_seconds: wall time of each step, the copy of the batch included.
        sizes: bytes on the device.
    """

    model: str
    batch: int
    threads: int
    compile_seconds: float
    losses: list[float]
    step_seconds: list[float]
    sizes: Sizes


@dataclass(frozen=True)
class Accuracy:
    """Held-out accuracy of the digits, as odtc and as onnxruntime evaluate the same weights."""

    odtc: float
    onnxruntime: float


class DemoRunner:
    """Compiles a model, and takes timed steps with it.

    Args:
        model: the ONNX model.
        name: file name without its suffix.
        folder: where its files are written.
        batch: samples in a step.
        threads: worker threads of a step.
    """

    def __init__(
        self, model: onnx.ModelProto, name: str, folder: Path, batch: int, threads: int
    ) -> None:
        file = folder / f"{name}.onnx"
        onnx.save(model, file)
        start = time.perf_counter()
        # As the first time on a machine.
        with nothing_kept():
            self._artifact = odtc.compile(file, batch=batch, optimizer=odtc.SGD(momentum=0.9))
        self._compile_seconds = time.perf_counter() - start
        self._name, self._batch, self._threads = name, batch, threads
        self._losses: list[float] = []
        self._seconds: list[float] = []
        self.trainer = self._artifact.trainer(threads=threads)

    def step(self, x: np.ndarray, y: np.ndarray, lr: float) -> None:
        """Takes a step and notes its loss and its time."""
        start = time.perf_counter()
        loss = self.trainer.step(x, y, lr)
        self._seconds.append(time.perf_counter() - start)
        self._losses.append(loss)

    def result(self) -> Training:
        """Returns the measurements so far."""
        return Training(
            self._name,
            self._batch,
            self._threads,
            self._compile_seconds,
            self._losses,
            self._seconds,
            self._artifact.manifest.sizes,
        )


def train_digits(folder: Path, threads: int, batch: int = 32) -> tuple[Training, Accuracy]:
    """Trains on the digits, exports, and evaluates the export in onnxruntime."""
    x, y, x_test, y_test = digits_data()
    runner = DemoRunner(digits_model(), "digits", folder, batch, threads)
    rng = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            chosen = order[start : start + batch]
            runner.step(x[chosen], y[chosen], lr=0.05)
    exported = folder / "digits-trained.onnx"
    runner.trainer.export_onnx(exported)
    logits = runner.trainer.evaluate(x_test), onnxruntime_logits(exported, x_test)
    shares = [float((each.argmax(axis=1) == y_test).mean()) for each in logits]
    return runner.result(), Accuracy(*shares)


def train_on_noise(
    folder: Path, threads: int, name: str = "squeezenet", batch: int = 4
) -> Training:
    """Takes a few steps of a zoo model on one batch of random images and labels."""
    runner = DemoRunner(zoo_model(name), name, folder, batch, threads)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, 3, 224, 224), np.float32)
    y = rng.integers(0, 1000, batch)
    for _ in range(NOISE_STEPS):
        runner.step(x, y, lr=0.001)
    return runner.result()


def onnxruntime_logits(file: Path, x: np.ndarray) -> np.ndarray:
    """The first output of an ONNX model of one input."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def failures(digits: Training, accuracy: Accuracy, noise: Training) -> list[str]:
    """Lists results that are not as they must be; empty where all are."""
    found = []
    if accuracy.odtc < ACCURACY:
        found.append(f"{digits.model} reached {accuracy.odtc:.1%}, not {ACCURACY:.0%}")
    if accuracy.onnxruntime != accuracy.odtc:
        found.append(f"onnxruntime gets {accuracy.onnxruntime:.1%} of the exported model")
    if not noise.losses[-1] < 0.9 * noise.losses[0]:
        found.append(f"the loss of {noise.model} did not fall")
    return found


def figures_of(training: Training) -> dict[str, Any]:
    """For docs/performance.md."""
    sizes = training.sizes
    return {
        "model": training.model,
        "batch": training.batch,
        "threads": training.threads,
        "steps": len(training.losses),
        "losses": [training.losses[0], training.losses[-1]],
        "step_ms": [seconds * 1e3 for seconds in training.step_seconds],
        "compile_seconds": training.compile_seconds,
        "bytes": {
            "parameters": sizes.parameters,
            "optimizer": sizes.optimizer,
            "arena": sizes.train_step,
        },
    }


def table_of(trainings: list[Training]) -> Table:
    """The trainings, one per column."""
    table = Table("", *(item.model for item in trainings), box=box.SIMPLE)
    rows: dict[str, Callable[[Training], str]] = {
        "batch": lambda item: str(item.batch),
        "threads": lambda item: str(item.threads),
        "steps": lambda item: str(len(item.losses)),
        "loss, first to last": lambda item: f"{item.losses[0]:.3f} to {item.losses[-1]:.3f}",
        "step, ms": lambda item: spread(item.step_seconds).text(scale=1e3, digits=1),
        "compiled in, s": lambda item: f"{item.compile_seconds:.1f}",
        "parameters, bytes": lambda item: f"{item.sizes.parameters:,}",
        "optimizer, bytes": lambda item: f"{item.sizes.optimizer:,}",
        "arena, bytes": lambda item: f"{item.sizes.train_step:,}",
    }
    for heading, cell in rows.items():
        table.add_row(heading, *(cell(item) for item in trainings))
    return table


def main() -> int:
    """Runs the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=core_count(), help="of a step")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write raw samples")
    add_figures(parser, "performance/demo")
    options = parser.parse_args()
    start = time.perf_counter()
    said = about()
    here = said["machine"]
    console = Console(highlight=False)
    console.print(f"{cpu_text(here)}, {here['cores']} cores, {here['system']}")
    with tempfile.TemporaryDirectory() as folder:
        console.print("digits: compile, train, export ...")
        digits, accuracy = train_digits(Path(folder), options.threads)
        console.print("squeezenet: compile, train ...")
        noise = train_on_noise(Path(folder), options.threads)
    console.print(table_of([digits, noise]))
    console.print("step: median (quartiles) of the wall time of Trainer.step")
    console.print(
        f"digits, held out: {accuracy.odtc:.2%} in odtc, {accuracy.onnxruntime:.2%} in onnxruntime "
        "after the export",
    )
    if options.json:
        more = {"accuracy": dataclasses.asdict(accuracy)}
        write_json(said | more, "trainings", [digits, noise], options.json)
    rows = [figures_of(item) for item in (digits, noise)]
    write_figures(options.figures, said, rows, accuracy=dataclasses.asdict(accuracy))
    problems = failures(digits, accuracy, noise)
    verdict = f"FAILED: {'; '.join(problems)}" if problems else "all as it should be"
    console.print(f"{verdict}, {time.perf_counter() - start:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
