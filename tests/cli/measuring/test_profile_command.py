"""`odtc profile`: its tables, its JSON, its trace, and its page in a browser."""

import functools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from odtc.charts.rows import Plane
from odtc.cli.main import main
from odtc.cli.measuring.profile import report
from odtc.cli.pictures.timeline import charts_of, draw
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.metrics import cooldown
from odtc.runtime_rpc.metrics.cooldown import Cooldown
from odtc.runtime_rpc.metrics.samples import Samples, Series
from odtc.runtime_rpc.profile.launches import Launch
from odtc.runtime_rpc.profile.record import Move, Phase, Profile, ProfiledOperator, StepCall, Timed
from odtc.runtime_rpc.server.measure.sampler import Probe
from tests.browser import DARK, shown
from tests.charts.reading import bare
from tests.cli.training.digits import Digits
from tests.runtime_rpc.trace_format import faults

WINDOW = (1360, 1000)


def drawn(*, emulated: bool = False) -> Profile:
    """A profile by hand: a phone with all that can be known of it."""
    times = tuple(i / 100 for i in range(101))
    wave = tuple(50 + 50 * np.sin(i / 5) for i in range(101))
    names = {
        "cpu0.utilization": wave,
        "cpu1.utilization": wave[::-1],
        "cpu0.frequency": (1.8e9,) * 101,
        "gpu.utilization": wave,
        "battery.current": (-0.5,) * 101,
        "battery.voltage": (4.0,) * 101,
        "battery.discharging": (1.0,) * 101,
        "temperature.skin-0": (40.5,) * 101,
        "resident": (3e8,) * 101,
    }
    operators = (
        ProfiledOperator("conv", Phase.FORWARD, ("first & <only>", "relu"), 1 << 20),
        ProfiledOperator("slope", Phase.BACKWARD, ("gradient of first",), 3 << 20),
        ProfiledOperator("update", Phase.UPDATE, ("w",), 1 << 19),
    )
    runs = [
        StepCall(
            at,
            at + 0.4,
            (Timed(0, at, at + 0.1), Timed(1, at + 0.1, at + 0.3), Timed(2, at + 0.3, at + 0.39)),
        )
        for at in (0.05, 0.55)
    ]
    samples = Samples(
        0.0,
        1.0,
        {name: Series(times, tuple(map(float, values))) for name, values in names.items()},
        {"cores": Probe("value", "/proc/stat"), "gpu": Probe("denied", "[Errno 13] no")},
        emulated=emulated,
    )
    moves = (Move("upload", 0.01, 0.05), Move("download", 0.96, 0.98))
    steps = tuple((run,) for run in runs)
    return Profile("m.onnx", "a phone", operators, steps, moves, samples, 4096, 8192)


def test_the_tables_say_what_was_found() -> None:
    lines = report(drawn(), {})
    assert lines[0].startswith("m.onnx on a phone, 2 steps: 400.00 (400.00 to 400.00) ms")
    assert lines[0].endswith("97.5% of it in operators")
    rows = {line.split("  ")[0]: line.split() for line in lines if line}
    assert rows["backward"][1:4] == ["200.000", "51.3%", "1"]
    assert rows["backward"][5] == "1.8", "gigahertz"
    assert rows["backward"][-1] == "2", "watts"
    assert rows["upload"] == ["upload", "20.000"]
    assert "3.0 MiB, at gradient of first" in "\n".join(lines)
    assert rows["energy"] == ["energy", "2.00", "J"]
    assert "gpu: denied ([Errno 13] no)" in lines


def test_cores_that_wait_for_a_gpu_are_in_the_summary_alone() -> None:
    lines = report(replace(drawn(), on_gpu=True), {})
    heads = [line.split() for line in lines if line.startswith(("part ", "operator "))]
    assert heads[0] == ["part", "ms", "share", "calls", "GPU,", "%", "W"]
    assert "cores," not in heads[1]
    assert "GHz" not in heads[1]
    assert any(line.startswith("utilisation of cores, %") for line in lines)


def test_emulated_times_are_stamped() -> None:
    assert report(drawn(emulated=True), {})[0] == "EMULATED: emulated, not a measurement"


def test_what_a_gpu_launches() -> None:
    """Of the slowest kernels, with all that the driver says of any."""
    first = Launch("conv_kernel", (4, 1, 2), (256, 1, 1), {"shared bytes": 1536.0})
    second = Launch("conv_kernel_1", (3, 1, 1), (64, 1, 1), {"Registers": 40.0, "Occupied": 0.25})
    lines = report(drawn(), {"conv": (first, second), "of another plan": (first,)})
    at = next(n for n, line in enumerate(lines) if line.startswith("launch "))
    assert [re.split(r"\s{2,}", line.rstrip()) for line in lines[at : at + 3]] == [
        ["launch", "groups", "items", "shared bytes", "Registers", "Occupied"],
        ["conv_kernel", "4 x 1 x 2", "256 x 1 x 1", "1536"],
        ["conv_kernel_1", "3 x 1 x 1", "64 x 1 x 1", "40", "0.25"],
    ]
    assert not lines[at + 3]


def test_the_command_profiles_an_artifact(digits: Digits, here: Path, run_json) -> None:
    files = ["--trace", "trace.json", "--html", "page.html"]
    found = run_json("profile", digits.artifact, "--steps", "4", "--threads", "1", *files)
    assert len(found["step_seconds"]) == len(found["steps"]) == 4
    assert 0 < found["coverage"] <= 1
    assert set(found["phases"]) == {"forward", "backward", "update"}
    assert found["emulated"] is False
    assert found["samples"]["probes"]["cores"]["state"] == "value"
    assert found["operators"][0]["nodes"] == ["-> relu1", "-> conv1"]
    assert faults(Path("trace.json").read_text()) == []
    page = Path("page.html").read_text()
    # The colours of forward, backward and update.
    assert len(re.findall(r'class="area s[012]" x="[\d.]+%"', page)) == 4 * len(found["operators"])
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_the_command_waits_until_the_device_is_cool(
    digits: Digits, here: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    heats = iter([45.0, 41.0, 39.5])
    monkeypatch.setattr(cooldown, "heat_now", lambda _: next(heats))
    monkeypatch.setattr(cooldown, "Cooldown", functools.partial(Cooldown, pause=0.0))
    argv = ["profile", str(digits.artifact), "--steps", "2", "--cooldown", "40"]
    assert main(argv) == ExitCode.OK
    assert next(heats, None) is None
    said = capsys.readouterr().err
    assert "cooling down: 45.0 °C, to 40.0 °C" in said
    assert said.index("cooling down: 41.0") < said.index("taking steps")


def test_the_command_takes_data(digits: Digits, here: Path, capsys) -> None:
    argv = ["profile", str(digits.artifact), "--steps", "2", "--data", str(digits.train)]
    assert main(argv) == ExitCode.OK
    out = capsys.readouterr().out
    assert "d.onnx on this machine, 2 steps" in out
    assert "-> relu1, -> conv1" in out


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    draw(drawn(emulated=True), page)
    seen = shown(page, tmp_path, WINDOW)
    document, picture = seen.document, seen.picture
    assert seen.console == ""
    # The script has run: what is drawn can be looked at more closely, in each chart.
    scaled = re.findall('class="scaled" height="100%" x="0%" width="100%"', document)
    assert len(scaled) == document.count("<figure")
    assert len(re.findall(r'class="area s[012]" x="[\d.]+%"', document)) == 6
    assert "first &amp; &lt;only&gt;" in document
    assert "emulated, not a measurement" in document
    for colour in ("#0072b2", "#d55e00", "#009e73", "#8a8f96"):
        assert seen.has_colour(colour), colour
    assert seen.has_colour("#ffffff")
    assert len(np.unique((picture * 255).astype(int).reshape(-1, 3), axis=0)) > 50


def test_a_bar_lies_in_the_lane_of_what_its_legend_says() -> None:
    chart = charts_of(drawn())[0]
    names = [row.label for row in chart.rows]
    assert [chart.up.scale.text(mark) for mark in chart.up.scale.marks()] == names
    top_down = [100 - chart.up.scale.at(mark) for mark in chart.up.scale.marks()]
    assert top_down == sorted(top_down)
    plane = Plane(chart.across.scale, chart.up.scale)
    bars = {"steps": 2, "forward": 2, "backward": 2, "update": 2, "upload": 1, "download": 1}
    for row, middle in zip(chart.rows, top_down, strict=True):
        found = [bare(line) for line in row.body(plane)]
        assert len(found) == bars[row.label]
        for bar in found:
            y, height = (float(bar.get(name, "").strip("%")) for name in ("y", "height"))
            assert y < middle < y + height
            said = bar.findtext("title", "")
            assert row.label in said or row.label == "steps"
    assert "2, 400.000 ms together" in [*chart.rows[2].data()]


def test_each_chart_has_a_line_for_what_is_known() -> None:
    lines = {chart.title: [row.label for row in chart.rows] for chart in charts_of(drawn())[1:]}
    assert lines["Utilization of cores"] == ["cpu0", "cpu1"]
    assert lines["Power"] == ["power"]
    assert "2 to 2 W" in [said for c in charts_of(drawn()) for r in c.rows for said in r.data()]
    assert len(lines) == 7


def test_the_page_is_dark_where_that_is_liked_and_can_be_looked_at_closely(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    draw(drawn(), page)
    press = "timeline.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}));"
    page.write_text(page.read_text() + f"<script>{press}</script>")
    seen = shown(page, tmp_path, WINDOW, DARK)
    assert seen.console == ""
    # Four fifths of the time, in the middle.
    assert 'class="scaled" height="100%" x="-12.5%" width="125%"' in seen.document
    assert seen.has_colour("#161b22")
    assert seen.has_colour("#4a9fdd")


def test_an_error_on_the_console_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html><body><script>missing.call()</script></body></html>")
    assert "missing is not defined" in shown(page, tmp_path, WINDOW).console


@pytest.mark.parametrize("steps", ["0", "many"])
def test_steps_are_a_number(digits: Digits, steps: str, capsys) -> None:
    assert main(["profile", str(digits.artifact), "--steps", steps]) == ExitCode.USAGE
    assert "whole number of at least 1" in capsys.readouterr().err
