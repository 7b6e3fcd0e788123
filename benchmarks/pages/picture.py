"""README's picture: how much more time and memory the peers' steps take than odtc's."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.pages.kernels import ROOT
from benchmarks.pages.result import RESULTS
from odtc.charts.chart import Axis, Chart
from odtc.charts.file import svg
from odtc.charts.rows import Dot, Line, Points
from odtc.charts.scales import around_one
from odtc.comparison.results import Result
from odtc.report.html import mark_of_engine
from odtc.report.read import read

PICTURE = ROOT / "docs" / "pictures" / "peers.svg"
# Narrow, so that its texts can be read on a phone.
_WIDTH, _HEIGHT = 420, 440
# The file of the rows of README's table and picture, in docs/results.
README_ROWS = "readme"
_PEERS = {"pytorch": "PyTorch", "onnxruntime-training": "onnxruntime-training"}


def pictures() -> Iterator[tuple[Path, str]]:
    """Each picture with the text that it should have."""
    yield PICTURE, svg(peers_chart(), _WIDTH, _HEIGHT)


def peers_chart() -> Chart:
    """A point for each network of README's table, and each peer."""
    found = [
        each
        for each in read([RESULTS / f"{README_ROWS}.jsonl"]).results
        if each.engine in _PEERS and each.ratio and each.memory_ratio
    ]
    places = {name: [each for each in found if each.engine == name] for name in _PEERS}
    time = around_one([each.ratio.median for each in found if each.ratio])
    memory = around_one([each.memory_ratio for each in found if each.memory_ratio])
    networks = {each.setting.model for each in found}
    (batch,) = {each.setting.batch for each in found}
    return Chart(
        "A training step of others, over odtc's",
        f"{len(networks)} networks, batch {batch}, one thread. Right of 1 odtc is faster, "
        "above 1 it needs less memory, net of what a process has after its imports.",
        Axis(time, "their time over odtc's"),
        Axis(memory, "their memory over odtc's"),
        [
            Line("odtc's time", "turn", [(1, memory.low), (1, memory.high)]),
            *(
                Points(label, mark_of_engine(name), [*map(_dot, places[name])], joined=False)
                for name, label in _PEERS.items()
            ),
            Line("odtc's memory", "turn", [(time.low, 1), (time.high, 1)]),
        ],
    )


def _dot(each: Result) -> Dot:
    assert each.ratio
    assert each.memory_ratio
    said = (
        f"{each.setting.text()}: {each.ratio.median:.2f} of the time, {each.memory_ratio:.2f} of "
        "the memory"
    )
    return Dot((each.ratio.median, each.memory_ratio), said)
