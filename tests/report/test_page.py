"""`odtc report`: what the page says, and that a browser shows it, at a desk and on a phone."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from odtc.artifact import load
from odtc.charts.scales import Linear, Log, around_one, scale_of
from odtc.cli.main import main
from odtc.comparison.outcome import Outcome
from odtc.core.errors import ExitCode
from odtc.report.page import page
from odtc.report.read import read
from tests.browser import DARK, shown
from tests.cli.measuring.test_profile_command import drawn
from tests.cli.training.digits import make_digits
from tests.report.material import ENGINES, MODELS, rows, write_frontier, write_rows

MOST_BYTES = 3_000_000
# A window is no narrower than 500 points: so the page is in a frame, to which it tells what it
# finds when everything is drawn.
FRAME = """<html><head><link rel="icon" href="data:,">
<meta name="color-scheme" content="light dark">
<script>addEventListener("message", (event) => { document.title = event.data; });</script></head>
<body style="margin: 0">
<iframe src="page.html" width="WIDTH" height="3000" style="border: 0"></iframe>
</body></html>"""
PROBE = """<script>
addEventListener("load", () => {
  const flat = [...document.querySelectorAll("figure svg:not(svg svg)")].filter((each) => {
    const box = each.getBoundingClientRect();
    return !(box.width > 0 && box.height > 0);
  });
  const tensors = [...document.querySelectorAll("rect.area")].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width >= 1 && box.height >= 1;
  });
  const shapes = document.querySelectorAll("figure .point, figure .strips rect");
  const marks = [...shapes].filter((each) => {
    const box = each.getBoundingClientRect();
    return !(box.width >= 1 && box.height >= 1);
  });
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const heads = [...document.querySelectorAll("th button")];
  const head = heads.find((each) => each.textContent === "ms a step");
  head.focus({preventScroll: true});
  const focused = document.activeElement === head;
  head.click();
  const body = head.closest("table").tBodies[0];
  const column = head.parentElement.cellIndex;
  const values = [...body.rows].map((row) => row.cells[column].dataset.v).filter((v) => v);
  const sorted = values.every((v, i) => !i || Number(values[i - 1]) <= Number(v));
  parent.postMessage(JSON.stringify({flat: flat.length, marks: marks.length,
    tensors: tensors.length, wide, focused, sorted,
    count: values.length, aria: head.parentElement.getAttribute("aria-sort")}), "*");
});
</script>"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """Rows, a frontier, a profile and an artifact."""
    folder = tmp_path_factory.mktemp("material")
    digits = make_digits(folder)
    profile = folder / "profiled.json"
    profile.write_text(json.dumps(drawn().to_dict()))
    return [
        write_rows(folder / "rows.jsonl"),
        write_frontier(folder / "net.json"),
        profile,
        digits.artifact,
    ]


@pytest.fixture(scope="module")
def text(files: list[Path]) -> str:
    return page(read(files), "A <title>")


class Tags(HTMLParser):
    """Checks that every element is closed, and collects anchors and links."""

    VOID = frozenset(("meta", "link", "br"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.anchors: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        own = dict(attrs)
        self.anchors += [own["id"]] if "id" in own else []
        self.links += [own["href"]] if tag == "a" else []

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_alone(text: str) -> None:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert len(set(tags.anchors)) == len(tags.anchors)
    assert {link.removeprefix("#") for link in tags.links} <= set(tags.anchors)
    assert "http" not in text
    assert len(text.encode()) < MOST_BYTES
    assert "<b>" not in re.sub(r"<b>[\d.]+ ×</b>", "", text), "a model's name is no element"


def test_losses_come_first(text: str) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[:3] == ["Where odtc loses", "Summary", "Who trains what"]
    assert titles[-3:] == ["Everything", "Published figures", "How it was measured"]
    losses = text[text.index('id="loses"') : text.index('id="summary"')]
    assert losses.count('<td class="text">bert_tiny</td>') == 2
    assert "resnet50" not in losses
    assert 'class="loses"' in losses.partition("\n")[0] or 'class="loses"' in text


def test_where_nothing_is_lost_it_says_so(tmp_path: Path) -> None:
    won = [row for row in rows() if row.setting.model == "resnet50"]
    found = page(read([write_rows(tmp_path / "r.jsonl", won)]), "x")
    assert "By nothing that was measured, in none of 16 comparisons" in found


def test_what_odtc_cannot_train_is_a_loss(tmp_path: Path) -> None:
    failed = [
        replace(row, outcome=Outcome.UNSUPPORTED, reason="no gradient", seconds=(), cpu_seconds=())
        if row.engine == "odtc"
        else row
        for row in rows()[: len(ENGINES)]
    ]
    found = page(read([write_rows(tmp_path / "r.jsonl", failed)]), "x")
    losses = found[found.index('id="loses"') : found.index('id="summary"')]
    assert "odtc: unsupported: no gradient" in losses
    assert "onnxruntime-training, pytorch, tvm" in losses


def test_each_model_has_its_samples(text: str) -> None:
    for number in range(len(MODELS)):
        part = text.split(f'id="model-{number}"')[1].split("</section>", maxsplit=1)[0]
        timed = part.count('class="middle ')
        assert timed == (10 if number == 0 else 8)
        # Two rounds of eight steps each.
        assert part.count('class="dot ') == 16 * timed
        assert "Throughput, threads 1" in part


def test_the_memory_of_an_artifact_is_drawn(files: list[Path], text: str) -> None:
    plan = load(files[-1]).memory.plan
    part = text.split('id="skyline-0"')[1].split("</section>", maxsplit=1)[0]
    assert part.count('%" stroke-width=') == len(plan.tensors)
    assert f"An arena of {plan.arena_bytes / 1e6:,.1f} MB" in part


def test_every_timed_step_is_below_the_roof(text: str) -> None:
    part = text.split('id="roofline"')[1].split("</section>", maxsplit=1)[0]
    # Of 36 rows of a round, 10 were not timed.
    plot = part.partition('<div class="legend">')[0]
    assert plot.count('class="point ') == 26
    assert plot.count('class="roof"') == 1
    assert "lenet &lt;b&gt;, batch 4, threads 1, odtc: " in part


def test_without_ceilings_there_is_no_roof(tmp_path: Path) -> None:
    plain = [replace(row, fma=0.0, copy=0.0) for row in rows()]
    assert 'id="roofline"' not in page(read([write_rows(tmp_path / "r.jsonl", plain)]), "x")


def test_raw_samples_are_on_the_page(text: str) -> None:
    data = text.split('id="data">')[1].split("</script>", maxsplit=1)[0]
    (own,) = json.loads(data)
    assert own["head"]["commit"] == "0123456789ab"
    assert len(own["rows"]) == len(rows())
    assert own["rows"][0]["seconds"] == list(rows()[0].seconds)


def test_emulated_operators_have_no_times(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(drawn(emulated=True).to_dict()))
    found = page(read([path]), "x")
    assert "Emulated: these times are not a measurement" in found
    assert "Parts of a step" not in found


@pytest.mark.parametrize(
    ("width", "options", "colours"),
    [
        (1280, (), ("#ffffff", "#0072b2", "#d55e00", "#009e73")),
        (1280, (DARK,), ("#161b22", "#4a9fdd", "#f07c35", "#1fbf8f")),
        (390, (), ("#ffffff", "#0072b2", "#d55e00", "#009e73")),
        (390, (DARK,), ("#161b22", "#4a9fdd", "#f07c35", "#1fbf8f")),
    ],
    ids=["desk", "desk-dark", "phone", "phone-dark"],
)
def test_a_browser_draws_everything(text: str, tmp_path: Path, width, options, colours) -> None:
    (tmp_path / "page.html").write_text(text.replace("</main>", f"</main>{PROBE}"))
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    seen = shown(frame, tmp_path, (max(500, width), 3000), *options)
    assert seen.console == ""
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", seen.document)[1])
    assert (found["flat"], found["marks"], found["wide"]) == (0, 0, 0)
    assert found["tensors"] > 10
    assert found["focused"]
    assert found["sorted"]
    assert found["aria"] == "ascending"
    assert found["count"] == 26
    for colour in colours:
        assert seen.has_colour(colour), colour


def test_the_command_writes_the_page_and_says_it_in_brief(files, tmp_path, capsys) -> None:
    output = tmp_path / "report.html"
    argv = ["report", *map(str, files), "-o", str(output), "--title", "Mine"]
    assert main(argv) == ExitCode.OK
    assert "<title>Mine</title>" in output.read_text()
    said = capsys.readouterr()
    assert "time of a step: odtc loses 2 of 14; at worst bert_tiny, batch 4" in said.out
    assert f"wrote {output}" in said.err.replace("\n", "")


def test_a_file_that_was_cut_off_has_its_whole_rows(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl")
    path.write_text(path.read_text()[:-40])
    assert sum(map(len, read([path]).rows)) == len(rows()) - 1


def test_scales_show_all_values() -> None:
    assert isinstance(scale_of([1.0, 3.0]), Linear)
    assert isinstance(scale_of([1.0, 300.0]), Log)
    for scale in (scale_of([1.0, 3.0]), scale_of([0.2, 300.0]), around_one([0.9, 1.1])):
        places = [scale.at(mark) for mark in scale.marks()]
        assert places == sorted(places)
        assert len(places) >= 2 or isinstance(scale, Log)
        assert all(0 <= place <= 100 for place in places)
    assert Linear(9.4, 1).marks() == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert 0 < around_one([2.0, 3.0]).at(1.0) < around_one([2.0, 3.0]).at(2.0) < 100
