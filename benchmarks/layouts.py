"""The gain of layouts in a step: `python -m benchmarks.layouts`.

Each network is compiled with all images as ONNX has them, with channels last wherever an operator
can, and with those that a model says are the cheapest. The three take the same first steps, and
must have the same losses; then they take steps in turns. A few more steps of each are profiled: how
much of them is spent on moving elements, and on nothing else.
"""

import argparse
import dataclasses
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from rich.table import Table

import odtc
from benchmarks.memory.__main__ import chosen_networks
from benchmarks.options import add_sizes, positive
from benchmarks.output import (
    about,
    add_files,
    introduce,
    numbers_table,
    panels,
    save_figure,
    terminal,
    write_json,
)
from benchmarks.step_time.cases import StepCase, case_of
from benchmarks.step_time.compare import timed_step
from odtc.comparison.measures.measure import Spread, busy_share, spread
from odtc.comparison.measures.parity import PARITY_STEPS, disagreement
from odtc.core.artifact.layout_plan import LayoutPlan
from odtc.core.ir.layouts import LAST, SECOND
from odtc.driver.layouts import CHEAPEST, ONNX
from odtc.runtime_rpc.profile.record import Profile
from odtc.runtime_rpc.trainer import Trainer

NETWORKS = ("squeezenet", "mobilenet_v2", "resnet50", "densenet121", "googlenet", "shufflenet_v2")
ALL_LAST = "last"
WAYS = (ONNX, ALL_LAST, CHEAPEST)
PROFILED_STEPS = 4
# Words in the names of kernels that move elements and compute nothing.
MOVES = frozenset(
    "relayout transpose concatenate split strided_slice reshape pad squeeze expand_dims".split()
)


@dataclass
class LayoutWay:
    """A network with some layouts.

    Attributes:
        layout: `native`, `last` or `cheapest`.
        operators: that have a choice, by the layout that they run in.
        copies: of tensors into another layout.
        predicted: seconds of these operators and copies, by the model of the target.
        losses: of the first steps.
        seconds: of each timed step, in order.
        moving: share of a step's operators that only moves elements, from 0 to 1.
        by_kernel: seconds in a step of each such kernel.
        skipped: why it was not timed; empty where it was.
    """

    layout: str
    operators: dict[str, int]
    copies: int
    predicted: float
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    moving: float = 0.0
    by_kernel: dict[str, float] = field(default_factory=dict)
    skipped: str = ""


@dataclass
class Network:
    """A network in all ways.

    Attributes:
        name: of it.
        busy: share of the cores that other programs kept busy, before and after.
        ways: with each of `WAYS`.
    """

    name: str
    busy: tuple[float, float]
    ways: list[LayoutWay]

    @property
    def timed(self) -> dict[str, LayoutWay]:
        """The ways that were timed, by layout."""
        return {way.layout: way for way in self.ways if way.seconds}

    def against(self, layout: str) -> Spread:
        """Time with a layout over that with the cheapest ones, turn by turn: above 1 these win."""
        timed = self.timed
        pairs = zip(timed[layout].seconds, timed[CHEAPEST].seconds, strict=True)
        return spread([other / chosen for other, chosen in pairs])

    @property
    def better(self) -> Spread:
        """The same of the layout that is the better one for all operators."""
        others = [self.against(layout) for layout in self.timed if layout != CHEAPEST]
        return min(others, key=lambda each: each.median)


def is_move(kernel: str) -> bool:
    """Whether a kernel only moves elements, by its name: TVM joins those of what it fuses."""
    words = re.sub(r"\d+", "", kernel).removeprefix("fused_")
    for move in sorted(MOVES, key=len, reverse=True):
        words = words.replace(move, "")
    return not words.strip("_")


def moving_of(profile: Profile) -> tuple[float, dict[str, float]]:
    """The share of kernels that only move elements, and the seconds of each."""
    found: dict[str, float] = {}
    for operator, seconds in zip(profile.operators, profile.operator_seconds, strict=True):
        if is_move(operator.kernel):
            found[operator.kernel] = found.get(operator.kernel, 0.0) + seconds
    return sum(found.values()) / sum(profile.operator_seconds), found


def artifacts_of(case: StepCase, folder: Path) -> dict[str, odtc.Artifact]:
    """The network in each way, compiled unless it is in the folder."""
    model = folder / f"{case.name.replace('/', '-')}.onnx"
    onnx.save(case.model, model)

    def compiled(way: str, layout: str) -> odtc.Artifact:
        file = model.with_suffix(f".{case.batch}.{case.threads}.{way}.odtc")
        if not file.exists():
            options = {"batch": case.batch, "loss": case.loss, "dropout": False, "layout": layout}
            odtc.compile(model, f"host-cpu{{threads={case.threads}}}", **options).save(file)
        return odtc.load(file)

    cheapest = compiled(CHEAPEST, CHEAPEST)
    plan = model.with_suffix(".plan.txt")
    assert cheapest.manifest.layouts is not None
    plan.write_text(
        "".join(f"{each.name} {LAST}\n" for each in cheapest.manifest.layouts.operators)
    )
    return {
        ONNX: compiled(ONNX, ONNX),
        ALL_LAST: compiled(ALL_LAST, str(plan)),
        CHEAPEST: cheapest,
    }


def described(way: str, artifact: odtc.Artifact, cheapest: LayoutPlan) -> LayoutWay:
    """Describes an artifact's layouts; one without a plan runs as the cheapest plan's baseline."""
    plan = artifact.manifest.layouts
    if plan is None:
        return LayoutWay(
            way, {SECOND: len(cheapest.operators), LAST: 0}, 0, cheapest.native_seconds
        )
    taken = [each.layout for each in plan.operators]
    counts = {layout: taken.count(layout) for layout in (SECOND, LAST)}
    return LayoutWay(way, counts, len(plan.copies), plan.seconds)


class LayoutEngine:
    """A trainer that takes steps of a case at its learning rate."""

    def __init__(self, trainer: Trainer, case: StepCase) -> None:
        self.trainer, self._lr = trainer, case.lr

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """Takes one step and returns the loss before the update."""
        return self.trainer.step(x, y, self._lr)


def measured(case: StepCase, rounds: int, folder: Path) -> Network:
    """Parity first, then times in turns, then profiles."""
    artifacts = artifacts_of(case, folder)
    plan = artifacts[CHEAPEST].manifest.layouts
    assert plan is not None
    ways = {name: described(name, artifact, plan) for name, artifact in artifacts.items()}
    engines = {
        name: LayoutEngine(artifact.trainer(threads=case.threads), case)
        for name, artifact in artifacts.items()
    }
    for name, engine in engines.items():
        ways[name].losses = [float(engine.step(case.x, case.y)) for _ in range(PARITY_STEPS)]
        ways[name].skipped = disagreement(ways[name].losses, ways[ONNX].losses)
    before = busy_share()
    for _ in range(rounds):
        for name, engine in engines.items():
            if not ways[name].skipped:
                ways[name].seconds.append(timed_step(engine, case))
    busy = (before, busy_share())
    for name, engine in engines.items():
        with engine.trainer.profile() as profiling:
            for _ in range(PROFILED_STEPS):
                engine.step(case.x, case.y)
        ways[name].moving, ways[name].by_kernel = moving_of(profiling.profile)
    return Network(case.name, busy, list(ways.values()))


def table_of(found: Sequence[Network]) -> Table:
    """A row for each network and way."""
    heads = (
        "network",
        "layouts",
        "channels last",
        "copies",
        "step, ms",
        "over the cheapest",
        "moves",
    )
    table = numbers_table(*heads)
    for network in found:
        for way in network.ways:
            is_timed = way.layout in network.timed and CHEAPEST in network.timed
            table.add_row(
                network.name,
                way.layout,
                f"{way.operators.get(LAST, 0)} of {sum(way.operators.values())}",
                str(way.copies),
                spread(way.seconds).text(1e3, 1) if way.seconds else way.skipped,
                network.against(way.layout).text() if is_timed else "",
                f"{way.moving:.1%}",
            )
    return table


def mean_of(found: Sequence[Network]) -> float:
    """Geometric mean of the better uniform layout's time over that with the cheapest ones."""
    return float(np.exp(np.mean([np.log(network.better.median) for network in found])))


def draw(found: Sequence[Network], title: str, path: Path) -> None:
    """Writes a group of bars for each network as SVG: steps, over that as ONNX has it."""
    figure, (panel,) = panels(1, 1, (8, 1.2 + 0.7 * len(found)))
    height = 0.8 / len(WAYS)
    for place, layout in enumerate(WAYS):
        rows = [(n, each.timed) for n, each in enumerate(found) if layout in each.timed]
        at = [n + (place - 1) * height for n, _ in rows]
        ratios = [
            spread([a / b for a, b in zip(t[layout].seconds, t[ONNX].seconds, strict=True)])
            for _, t in rows
        ]
        middle = [each.median for each in ratios]
        low = [each.median - each.lower for each in ratios]
        high = [each.upper - each.median for each in ratios]
        bars = panel.barh(at, middle, height, xerr=[low, high], label=layout)
        panel.bar_label(bars, fmt="%.2f", padding=6, fontsize=7)
    panel.set_yticks(range(len(found)), [each.name for each in found])
    panel.set_xlabel(f"time of a step over that with {SECOND} alone: median and quartiles")
    panel.margins(x=0.12)
    panel.invert_yaxis()
    panel.legend(fontsize=8)
    save_figure(figure, title, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.layouts", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add_sizes(parser, batch=8, threads=2)
    add("--rounds", type=positive, default=12, help="timed steps of each way")
    add("--artifacts", type=Path, help="a folder that keeps what is compiled for another run")
    add_files(parser, "layouts", ["picture"])
    return parser


def main() -> int:
    """Measures the networks; returns the exit status: 1 where losses differ."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"threads": options.threads, "batch": options.batch}
    title = introduce(console, said, f"batch {options.batch}, threads {options.threads}")
    found: list[Network] = []
    for name in options.networks:
        console.print(f"{name} ...")
        case = dataclasses.replace(case_of(name, options.batch), threads=options.threads)
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.artifacts or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            found.append(measured(case, options.rounds, folder))
        write_json(said, "networks", found, options.json)
    agree = not any(way.skipped for network in found for way in network.ways)
    console.print("losses agree" if agree else "losses differ", table_of(found), sep="\n")
    if agree:
        console.print(
            f"the better of {ONNX} and {ALL_LAST} takes {mean_of(found):.3f} times as long as "
            f"{CHEAPEST} (geometric mean of {len(found)})"
        )
    console.print(f"median (quartiles) of {options.rounds} steps; raw samples: {options.json}")
    draw(found, title, options.picture)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
