"""The cost of a change of plan: `python -m benchmarks.budget.switching`.

A step is compiled with several plans. A run changes from each plan to each other one, takes a step
and then another one by the same plan: what change and first step take longer is the cost. A change
to a smaller plan gives memory back to the system; one to a larger plan asks for more, which the
system clears.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import onnx
from rich.table import Table

import odtc
from benchmarks.memory.__main__ import chosen_networks
from benchmarks.options import add_sizes, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    numbers_table,
    panels,
    save_figure,
    terminal,
    write_figures,
    write_json,
)
from benchmarks.step_time.cases import StepCase, case_of
from odtc.comparison.measures.measure import Spread, spread

# What a change in a direction comes from.
FROM = {"down": "more", "up": "less"}
NETWORKS = ("zoo/squeezenet", "resnet18", "mobilenet_v2")


@dataclass
class Changes:
    """Changes to one plan of a network, from larger ones or from smaller ones.

    Attributes:
        network: its name.
        arena_bytes: of the plan.
        direction: `down` from larger ones, `up` from smaller ones.
        changed: seconds of a change to the plan and a step, each time.
        same: seconds of the step after that.
        losses: of each pair of steps; all are the same, since the learning rate is 0.
    """

    network: str
    arena_bytes: int
    direction: str
    changed: list[float] = field(default_factory=list)
    same: list[float] = field(default_factory=list)
    losses: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ratio(self) -> Spread:
        """How many times the time of a step it takes to change and take one."""
        return spread(self.ratios)

    @property
    def ratios(self) -> list[float]:
        """The samples of `ratio`."""
        return [a / b for a, b in zip(self.changed, self.same, strict=True)]


def measured(case: StepCase, rounds: int, folder: Path) -> list[Changes]:
    """Changes between all plans of a network, so many times."""
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    artifact = odtc.compile(
        path,
        f"host-cpu{{threads={case.threads}}}",
        batch=case.batch,
        loss=case.loss,
        dropout=False,
        memory_budget="auto",
    )
    trainer = artifact.trainer(threads=case.threads)
    arenas = [plan.arena_bytes for plan in artifact.manifest.plans]
    found = {
        (arena, direction): Changes(case.name, arena, direction)
        for direction, those in (("down", arenas[1:]), ("up", arenas[:-1]))
        for arena in those
    }
    for _ in range(rounds):
        for last, arena in permutations(arenas, 2):
            trainer.set_budget(last)
            trainer.step(case.x, case.y, 0.0)
            plan = found[arena, "up" if arena > last else "down"]
            began = time.perf_counter()
            trainer.set_budget(arena)
            first = trainer.step(case.x, case.y, 0.0)
            changed = time.perf_counter()
            second = trainer.step(case.x, case.y, 0.0)
            plan.same.append(time.perf_counter() - changed)
            plan.changed.append(changed - began)
            plan.losses.append((first, second))
    return list(found.values())


def table_of(found: Sequence[Changes]) -> Table:
    """A row for each plan and direction."""
    table = numbers_table(
        "network", "arena, MB", "from", "step, ms", "first step by it, ms", "ratio"
    )
    for item in found:
        table.add_row(
            item.network,
            f"{item.arena_bytes / 1e6:.1f}",
            FROM[item.direction],
            spread(item.same).text(1e3, 1),
            spread(item.changed).text(1e3, 1),
            item.ratio.text(),
        )
    return table


def figures_of(found: Sequence[Changes]) -> list[dict[str, Any]]:
    """For docs/budgets.md: of each network its arenas, and the ratios of changes to each."""
    rows = []
    for name in dict.fromkeys(item.network for item in found):
        own = [item for item in found if item.network == name]
        arenas = sorted({item.arena_bytes for item in own})
        ways = {
            way: [each.ratios for each in sorted(own, key=_arena) if each.direction == way]
            for way in FROM
        }
        rows.append({"network": name, "arenas_mb": [each / 1e6 for each in arenas], **ways})
    return rows


def _arena(item: Changes) -> int:
    return item.arena_bytes


def draw(found: Sequence[Changes], title: str, path: Path) -> None:
    """Writes a bar for each plan and direction as SVG."""
    figure, (panel,) = panels(1, 1, (8, 1.2 + 0.25 * len(found)))
    names = [
        f"{item.network}, {item.arena_bytes / 1e6:.0f} MB from {FROM[item.direction]}"
        for item in found
    ]
    bars = panel.barh(names, [100 * (item.ratio.median - 1) for item in found])
    panel.bar_label(bars, fmt="%.1f", padding=4, fontsize=8)
    panel.set_xlabel("% of a step that a change to this plan takes")
    panel.margins(x=0.15)
    panel.invert_yaxis()
    save_figure(figure, title, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.budget.switching",
        description=(__doc__ or "").splitlines()[0],
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add_sizes(parser, batch=8, threads=1)
    add("--rounds", type=positive, default=5, help="how often each change is made")
    add_files(parser, "switching", ["picture"])
    add_figures(parser, "budgets/switching")
    return parser


def main() -> int:
    """Measures the changes; returns the exit status: 1 where a loss differs."""
    options = _parser().parse_args()
    console = terminal()
    said = about() | {"threads": options.threads, "batch": options.batch}
    title = introduce(console, said, f"batch {options.batch}, threads {options.threads}")
    found: list[Changes] = []
    for name in options.networks:
        console.print(f"{name} ...")
        case = dataclasses.replace(case_of(name, options.batch), threads=options.threads)
        with tempfile.TemporaryDirectory() as folder:
            plans = measured(case, options.rounds, Path(folder))
        if not plans:
            console.print(f"{name} has only one plan")
            continue
        found += plans
        write_json(said, "plans", found, options.json)
    losses = {(item.network, loss) for item in found for pair in item.losses for loss in pair}
    agree = len(losses) == len({item.network for item in found})
    console.print("all losses of a network are the same" if agree else "losses differ")
    console.print(table_of(found), f"raw samples: {options.json}")
    write_figures(options.figures, said, figures_of(found))
    draw(found, title, options.picture)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
