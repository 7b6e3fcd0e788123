"""The pictures of docs/concepts.md: a step's skyline, a budget's frontier, how a plan recomputes.

    python -m benchmarks.concepts

They are of ResNet-18 at batch 4 and plain SGD, compiled for this machine; docs/pictures has them.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import onnx

import odtc
from benchmarks.pages.kernels import ROOT
from benchmarks.step_time.cases import case_of
from odtc.charts.chart import Axis, Chart
from odtc.charts.file import svg
from odtc.charts.palette import OTHER, colour_class
from odtc.charts.rows import Area, Areas
from odtc.charts.scales import Lanes, Linear
from odtc.cli.console import readable_bytes
from odtc.cli.pictures import frontier_plot, skyline
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, PlannedTensor

PICTURES = ROOT / "docs" / "pictures"
NETWORK, BATCH = "resnet18", 4
# The budget, of the arena of the step as it is.
SHARE = 0.7
# Narrow, so that texts can be read on a phone.
_WIDTH, _HEIGHT = 420, 420
# Tensors in the last picture.
_MOST = 10


def main() -> int:
    """Writes them; returns the exit status."""
    argparse.ArgumentParser(
        prog="python -m benchmarks.concepts", description=(__doc__ or "").splitlines()[0]
    ).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NETWORK}.onnx"
        onnx.save(case_of(NETWORK, BATCH).model, path)
        as_it_is = odtc.compile(path, batch=BATCH).memory.plan
        budget = int(SHARE * as_it_is.arena_bytes)
        within = odtc.compile(path, batch=BATCH, memory_budget=budget).memory.plan
        frontier = odtc.plan(path, batch=BATCH)
    title = f"ResNet-18, batch {BATCH}"
    found = {
        "skyline": skyline.chart_of(as_it_is, f"A step's arena: {title}"),
        "frontier": frontier_plot.chart_of(frontier, f"What less memory costs: {title}"),
        "recomputed": recomputed(as_it_is, within, title),
    }
    for name, chart in found.items():
        path = PICTURES / f"{name}.svg"
        path.write_text(svg(chart, _WIDTH, _HEIGHT), encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


def recomputed(as_it_is: MemoryPlan, within: MemoryPlan, title: str) -> Chart:
    """When a tensor is in memory: without a budget, and with one that has it computed again.

    Args:
        as_it_is: the plan without a budget.
        within: the same step within one.
        title: of the step.
    """
    before, after = _stays(as_it_is), _stays(within)
    again = [name for name in before if len(after[name]) > len(before[name])]
    again.sort(key=lambda name: (-before[name][0].nbytes, before[name][0].first))
    shown = sorted(again[:_MOST], key=lambda name: before[name][0].first)
    parts: dict[str, list[Area]] = {"no budget": [], "first time": [], "computed again": []}
    for lane, name in enumerate(shown):
        parts["no budget"] += [_bar(each, as_it_is, lane + 0.1) for each in before[name]]
        first, *others = after[name]
        parts["first time"].append(_bar(first, within, lane + 0.5))
        parts["computed again"] += [_bar(each, within, lane + 0.5) for each in others]
    colours = dict(zip(parts, (OTHER, colour_class(0), colour_class(1)), strict=True))
    more = len(within.calls) - len(as_it_is.calls)
    return Chart(
        f"How a plan recomputes: {title}",
        f"{_counted(shown, again)} computed again, by {more} calls beside the step's "
        f"{len(as_it_is.calls)}: the arena takes {_size(within.arena_bytes)} in place of "
        f"{_size(as_it_is.arena_bytes)}",
        Axis(Linear(100), "of the step's calls, in their order (%)"),
        Axis(Lanes([_size(before[name][0].nbytes) for name in shown]), "a tensor, and its size"),
        [Areas(label, colours[label], areas) for label, areas in parts.items()],
    )


def _stays(plan: MemoryPlan) -> dict[str, list[PlannedTensor]]:
    """By the ONNX name of an activation, each time that it is in memory."""
    found: dict[str, list[PlannedTensor]] = defaultdict(list)
    for tensor in sorted(plan.tensors, key=lambda tensor: tensor.first):
        if tensor.kind in (Kind.SAVED, Kind.ACTIVATION) and tensor.origins:
            found[tensor.tensor].append(tensor)
    return found


def _counted(shown: list[str], again: list[str]) -> str:
    if len(shown) == len(again):
        return f"{len(again)} tensors are dropped and"
    return f"the {len(shown)} largest of {len(again)} tensors that are dropped and"


def _size(count: int) -> str:
    return readable_bytes(count).partition(" (")[0]


def _bar(tensor: PlannedTensor, plan: MemoryPlan, top: float) -> Area:
    left, right = (100 * call / len(plan.calls) for call in (tensor.first, tensor.last + 1))
    tip = f"{tensor.tensor}: calls {tensor.first:,} to {tensor.last:,} of {len(plan.calls):,}"
    return Area((left, top + 0.35), (right, top), tip)


if __name__ == "__main__":
    sys.exit(main())
