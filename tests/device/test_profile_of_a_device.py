"""Profiles on the stand-in for a phone: made there, stamped as what they are, and sent here."""

import json
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.cli.measuring.sweep_tables import EMULATED
from odtc.runtime_rpc.profile.trace import trace_of
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from tests.runtime_rpc.trace_format import faults
from tests.runtime_rpc.trees import ADRENO, plant

pytestmark = pytest.mark.device

BATCH = 32


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "d.onnx")
    odtc.compile(folder / "d.onnx", "android-cpu", batch=BATCH).save(folder / "d.odtc")
    return folder / "d.odtc"


def test_the_phone_is_clocked_and_sampled_there(artifact: Path, phone: EmulatedPhone) -> None:
    session = odtc.connect(phone.url)
    (server,) = psutil.Process(phone._server.pid).children()
    plant(ADRENO, Path(f"/proc/{server.pid}/root/tmp/tree"))
    loaded = odtc.load(artifact)
    trainer, (x, y, *_) = loaded.trainer(session), digits_data()
    with trainer.profile(root="/tmp/tree") as profiling:
        losses = [trainer.step(x[:BATCH], y[:BATCH], lr=0.1) for _ in range(3)]
    session.close()
    profile = profiling.profile
    here = loaded.memory.plan
    assert [each.kernel for each in profile.operators] == list(here.calls)
    assert len(profile.steps) == 3
    assert losses[2] < losses[0]
    assert profile.emulated
    assert profile.samples.fixture
    assert profile.to_dict()["emulated"] is True
    assert profile.felt([0])["power"] == pytest.approx(2.0)
    assert faults(json.dumps(trace_of(profile))) == []
    times = [time for step in profile.steps for run in step for time in (run.begin, run.end)]
    assert np.all(np.diff(times) >= 0)
    assert profile.samples.began < times[0] < times[-1] < profile.samples.ended


def test_the_command_stamps_what_is_emulated(
    artifact: Path, phone: EmulatedPhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    files = ["--html", str(page), "--trace", str(trace)]
    argv = ["profile", str(artifact), "--device", phone.url, "--steps", "2", *files]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.startswith("EMULATED: emulated, not a measurement\n")
    assert "emulated, not a measurement" in page.read_text()
    assert "emulated, not a measurement" in trace.read_text()


def test_a_sweep_binds_threads_there_and_shows_no_time_that_is_emulated(
    artifact: Path, phone: EmulatedPhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = odtc.connect(phone.url)
    speeds = session.core_speeds()
    session.close()
    assert speeds
    core = max(speeds)
    choices = ["--cores", str(core), "--threads", "1", "--steps", "2", "--rounds", "1"]
    rows = tmp_path / "rows"
    argv = ["sweep", str(artifact), "--device", phone.url, *choices, "--output", str(rows)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(EMULATED)
    assert printed.splitlines()[3].split() == ["d", str(core), "1", "emulated"]
    (row,) = [json.loads(line) for line in rows.read_text().splitlines()[1:]]
    assert row["emulated"]
    assert (row["clock"], len(row["seconds"])) == ("device", 2)
