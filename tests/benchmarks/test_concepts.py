"""Pictures of docs/concepts.md: bars are those of the plans, and the pictures are of one step."""

import re
from pathlib import Path

import onnx
import pytest

import odtc
from benchmarks.concepts import PICTURES, recomputed
from odtc.charts.file import svg
from odtc.charts.rows import Areas
from tests.charts.reading import bare, points_of
from tests.charts.test_file import texts_within
from tests.numeric.plans.test_memory_budget import tower
from tests.pages.followed import DOCS

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
NAMES = ("skyline", "frontier", "recomputed")
_BUDGET = 0.7


def test_what_is_computed_again_is_there_twice(tmp_path: Path) -> None:
    onnx.save(tower(layers=3), tmp_path / "m.onnx")
    plain = odtc.compile(tmp_path / "m.onnx", batch=4).memory.plan
    least = int(_BUDGET * plain.arena_bytes)
    within = odtc.compile(
        tmp_path / "m.onnx", batch=4, memory_budget=least, micro_batches=1
    ).memory.plan
    chart = recomputed(plain, within, "a tower")
    bars = {row.label: row.areas for row in chart.rows if isinstance(row, Areas)}
    assert len(bars["computed again"]) == len(within.calls) - len(plain.calls) > 0
    assert chart.summary.startswith(f"{len(bars['no budget'])} tensors are dropped and")
    stays = {
        plan: {(each.tensor, each.first, each.last) for each in plan.tensors}
        for plan in (plain, within)
    }
    for label, areas in bars.items():
        plan = plain if label == "no budget" else within
        for area in areas:
            found = re.fullmatch(r"(.*): calls ([\d,]+) to ([\d,]+) of ([\d,]+)", area.tip)
            assert found
            first, last, count = (int(each.replace(",", "")) for each in found.groups()[1:])
            assert (found[1], first, last) in stays[plan]
            assert count == len(plan.calls)
            assert [area.low[0], area.high[0]] == pytest.approx(
                [100 * first / count, 100 * (last + 1) / count]
            )
    first, again = bars["first time"][0], bars["computed again"][0]
    assert first.high[0] < again.low[0]
    assert len(list(bare(svg(chart)).iter("rect"))) > 3 * len(bars["no budget"])


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_picture_is_cut(name: str) -> None:
    texts_within(bare((PICTURES / f"{name}.svg").read_text()))


def test_the_pictures_are_of_one_step() -> None:
    """The arena without a budget is that of each, and a budget that buys more bytes takes less."""
    roots = {name: bare((PICTURES / f"{name}.svg").read_text()) for name in NAMES}
    said = {name: root.findtext("desc") or "" for name, root in roots.items()}
    arena = re.match(r"arena (\S+ MiB)", said["skyline"])
    assert arena
    assert said["frontier"].startswith(f"{arena[1]} as it is")
    assert said["recomputed"].endswith(f"in place of {arena[1]}")
    found = [
        (int(tip[1].replace(",", "")), float(tip[2]))
        for point in points_of(roots["frontier"])
        if point.mark[0].endswith("s0")
        and (tip := re.match(r"([\d,]+) bytes, ([\d.]+) of the time", point.tip))
    ]
    assert len(found) > 3
    assert [time for _, time in sorted(found, reverse=True)] == sorted(time for _, time in found)


def test_each_picture_is_on_a_page_and_is_told_to_who_does_not_see_it() -> None:
    shown = [
        ((page.parent / path).resolve(), alt)
        for page in PAGES
        for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
    ]
    assert {path for path, _ in shown} == {*PICTURES.iterdir()}
    assert all(len(alt) > 30 for _, alt in shown)
