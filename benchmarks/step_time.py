"""Step times of odtc, PyTorch and onnxruntime-training: `python -m benchmarks.step_time`.

All engines train the same weights on the same batch with plain SGD. First their losses over a few
steps are compared; an engine whose losses differ from odtc's is not timed. Then the engines take
turns, A B C A B C, so that what else the machine does falls on all of them alike. A turn is a
pause, in which the worker threads of the engine before go to sleep, one step to warm up, and one
step that is timed. Times are wall times of one step, the copy of the batch included. Raw samples
are kept; medians, quartiles and ratios are derived from them.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from rich import box
from rich.console import Console
from rich.table import Table

import odtc
from benchmarks.measure import Spread, busy_share, core_count, machine, spread, versions
from benchmarks.models.digits import digits_model
from benchmarks.models.zoo import zoo_model, zoo_names

PARITY_STEPS = 3
PARITY_TOLERANCE = 2e-3
# At larger rates the loss on random images jumps, and rounding alone drives any two engines apart.
ZOO_LR = 2e-5
PAUSE_SECONDS = 0.05
# Above this share of busy cores, other programs disturb the times too much.
MAX_BUSY = 0.1
RESULTS = Path("logs/bench")


class Engine(Protocol):
    """Something that trains."""

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        ...


@dataclass(frozen=True)
class Case:
    """What every engine is given.

    Attributes:
        name: of the model.
        model: in ONNX.
        x: one batch of inputs.
        y: its labels.
        lr: learning rate.
        threads: worker threads of each engine.
    """

    name: str
    model: onnx.ModelProto
    x: np.ndarray
    y: np.ndarray
    lr: float
    threads: int


@dataclass
class Timing:
    """One engine on one case.

    Attributes:
        engine: its name.
        losses: of the first steps, before their updates.
        seconds: of each timed step, in order.
        skipped: why it was not timed; empty where it was.
    """

    engine: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    skipped: str = ""


@dataclass
class Comparison:
    """All engines on one case.

    Attributes:
        model: name of the model.
        batch: samples in a step.
        threads: worker threads of each engine.
        lr: learning rate.
        busy: share of the cores that other programs kept busy, before and after.
        timings: of each engine; the first is odtc.
    """

    model: str
    batch: int
    threads: int
    lr: float
    busy: tuple[float, float]
    timings: list[Timing]


class OdtcEngine:
    """odtc, compiled for this machine."""

    def __init__(self, case: Case, folder: Path) -> None:
        file = folder / f"{case.name}.onnx"
        onnx.save(case.model, file)
        artifact = odtc.compile(file, batch=len(case.x), dropout=False)
        self._trainer = artifact.trainer(threads=case.threads)
        self._lr = case.lr

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        return self._trainer.step(x, y, self._lr)


def torch_engine(case: Case, _: Path) -> Engine:
    """PyTorch, eager."""
    from benchmarks.reference.pytorch import TorchTrainer

    return TorchTrainer(case.model, lr=case.lr, threads=case.threads)


def ort_engine(case: Case, folder: Path) -> Engine:
    """onnxruntime-training's on-device API."""
    from benchmarks.reference.onnxruntime_training import OrtTrainer

    workdir = folder / f"{case.name}-ort"
    return OrtTrainer(case.model, len(case.x), workdir, lr=case.lr, threads=case.threads)


ENGINES: dict[str, Callable[[Case, Path], Engine]] = {
    "odtc": OdtcEngine,
    "PyTorch": torch_engine,
    "onnxruntime-training": ort_engine,
}


def case_of(name: str, threads: int, batch: int | None) -> Case:
    """A model with one batch of random inputs and labels.

    Args:
        name: `digits`, or a name of the zoo.
        threads: worker threads.
        batch: samples; 32 digits, or 4 images, where it is None.
    """
    rng = np.random.default_rng(0)
    if name == "digits":
        x = rng.random((batch or 32, 1, 8, 8), np.float32)
        return Case(name, digits_model(), x, rng.integers(0, 10, len(x)), 0.01, threads)
    x = rng.standard_normal((batch or 4, 3, 224, 224), np.float32)
    return Case(name, zoo_model(name), x, rng.integers(0, 1000, len(x)), ZOO_LR, threads)


def compare(case: Case, steps: int, folder: Path) -> Comparison:
    """Compares the losses of all engines, then times those that agree with odtc."""
    started = [start(name, make, case, folder) for name, make in ENGINES.items()]
    timings = [timing for timing, _ in started]
    for timing in timings[1:]:
        timing.skipped = timing.skipped or disagreement(timing.losses, timings[0].losses)
    before = busy_share()
    turns = [(t.seconds, engine) for t, engine in started if engine is not None and not t.skipped]
    for _ in range(steps):
        for seconds, engine in turns:
            seconds.append(timed_step(engine, case))
    busy = (before, busy_share())
    return Comparison(case.name, len(case.x), case.threads, case.lr, busy, timings)


def start(
    name: str, make: Callable[[Case, Path], Engine], case: Case, folder: Path
) -> tuple[Timing, Engine | None]:
    """Makes an engine and takes its first steps; a peer that cannot says why."""
    timing = Timing(name)
    try:
        engine = make(case, folder)
        timing.losses = [float(engine.step(case.x, case.y)) for _ in range(PARITY_STEPS)]
    except Exception as error:  # a peer may fail in any way of its own
        if name == "odtc":
            raise
        reason = (str(error).strip().splitlines() or [""])[0]
        timing.skipped = f"{type(error).__name__}: {reason}"[:200]
        return timing, None
    return timing, engine


def disagreement(losses: Sequence[float], expected: Sequence[float]) -> str:
    """What tells the losses apart from those expected; '' where nothing does."""
    if np.allclose(losses, expected, rtol=PARITY_TOLERANCE, atol=PARITY_TOLERANCE):
        return ""
    ours, theirs = (", ".join(f"{loss:.4f}" for loss in each) for each in (expected, losses))
    return f"its losses are {theirs}; those of odtc are {ours}"


def timed_step(engine: Engine, case: Case) -> float:
    """Seconds of one step, after a pause and one step to warm up."""
    time.sleep(PAUSE_SECONDS)
    engine.step(case.x, case.y)
    begin = time.perf_counter()
    engine.step(case.x, case.y)
    return time.perf_counter() - begin


def ratio(peer: Timing, ours: Timing) -> Spread:
    """Time of the peer over time of odtc, turn by turn: above 1, odtc is the faster one."""
    return spread([a / b for a, b in zip(peer.seconds, ours.seconds, strict=True)])


def table_of(comparisons: Sequence[Comparison]) -> Table:
    """Medians with quartiles, and how many times as long as odtc each engine takes."""
    table = Table(
        "model", "batch", "threads", "engine", "ms per step", "times odtc's", box=box.SIMPLE
    )
    for item in comparisons:
        for timing in item.timings:
            case = (item.model, str(item.batch), str(item.threads), timing.engine)
            if timing.skipped:
                table.add_row(*case, timing.skipped, "")
                continue
            times = ratio(timing, item.timings[0]).text()
            table.add_row(*case, spread(timing.seconds).text(scale=1e3), times)
    return table


def draw(comparisons: Sequence[Comparison], title: str, path: Path) -> None:
    """Writes a bar chart as SVG: medians, with quartiles as whiskers, one panel per comparison."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "odtc"
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        len(comparisons), 1, figsize=(8, 0.8 + 1.2 * len(comparisons)), squeeze=False
    )
    for panel, item in zip(panels[:, 0], comparisons, strict=True):
        timed = [timing for timing in item.timings if timing.seconds]
        values = [spread(np.multiply(timing.seconds, 1e3).tolist()) for timing in timed]
        whiskers = [[v.median - v.lower for v in values], [v.upper - v.median for v in values]]
        colours = [f"C{list(ENGINES).index(timing.engine)}" for timing in timed]
        bars = panel.barh(
            [timing.engine for timing in timed],
            [value.median for value in values],
            xerr=whiskers,
            color=colours,
        )
        panel.bar_label(bars, [f"{value.median:.2f}" for value in values], padding=4)
        threads = f"{item.threads} thread" + "s" * (item.threads > 1)
        panel.set_title(f"{item.model}, batch {item.batch}, {threads}", loc="left", fontsize=10)
        panel.invert_yaxis()
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xlabel("ms per training step: median and quartiles")
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def write_json(comparisons: Sequence[Comparison], about: dict[str, Any], path: Path) -> None:
    """Writes everything that was measured, with raw samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = about | {"comparisons": [dataclasses.asdict(item) for item in comparisons]}
    path.write_text(json.dumps(report, indent=1))


def _names(text: str) -> list[str]:
    known = ("digits", *zoo_names())
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no model {name!r}; there are {', '.join(known)}")
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _counts(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = partial(parser.add_argument, metavar="")
    add("--models", type=_names, default="digits,squeezenet", help="digits, or names of the zoo")
    add("--threads", type=_counts, default=sorted({1, core_count()}), help="such as 1,2")
    add("--batch", type=_positive, help="samples in a step: 32 digits, 4 images")
    add("--steps", type=_positive, default=30, help="timed steps of each engine")
    add("--json", type=Path, default=RESULTS / "step_time.json", help="where raw samples go")
    add("--picture", type=Path, default=RESULTS / "step_time.svg", help="where the chart goes")
    return parser


def main() -> int:
    """Runs the comparison; returns the exit status."""
    options = _parser().parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    about = {"machine": machine(), "versions": versions()}
    title = f"{about['machine']['cpu']}, {about['machine']['cores']} cores"
    console.print(title, "; ".join(f"{k} {v}" for k, v in about["versions"].items()), sep="\n")
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            for threads in options.threads:
                console.print(f"{name}, threads {threads} ...")
                case = case_of(name, threads, options.batch)
                private = Path(folder, f"{name}-{threads}")
                private.mkdir()
                comparisons.append(compare(case, options.steps, private))
    console.print(table_of(comparisons))
    write_json(comparisons, about, options.json)
    draw(comparisons, title, options.picture)
    console.print(f"median (quartiles) of {options.steps} steps; raw samples: {options.json}")
    worst = max(share for item in comparisons for share in item.busy)
    if worst > MAX_BUSY:
        console.print(
            f"other programs kept {worst:.0%} of the cores busy: do not trust these times"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
