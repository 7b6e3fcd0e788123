"""`odtc tune` on a GPU of this machine, which may be PoCL."""

from pathlib import Path

import pytest

from odtc.autoschedule.tuning.database import read
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.sessions.local import gpu_here
from tests.cli.training.digits import BATCH, make_digits
from tests.runtime_rpc.own_server import NATIVE, serving


@pytest.mark.slow
def test_a_session_ends_with_a_step_that_computes_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = make_digits(tmp_path).model, tmp_path / "records.jsonl"
    of = ("--batch", str(BATCH), "--target", "host-opencl", "--database", str(file))
    # At its end it compares the losses of steps with and without what it found.
    assert main(["tune", str(model), *of, "--trials", "30", "--rounds", "3"]) == ExitCode.OK
    assert "medians of 3 in turns" in capsys.readouterr().out
    trials = [record for record in read(file).records if not record.kept]
    assert len(trials) >= 30
    assert sum(bool(record.reason) for record in trials) < len(trials) / 4
    decided = {name for record in trials for name in record.choice}
    assert decided <= {"tile", "slice", "splits", "order"}
    (device,) = {record.device for record in trials}
    assert device.name
    assert device.driver


@pytest.mark.slow
def test_a_device_measures_them_by_odtc_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = make_digits(tmp_path).model, tmp_path / "records.jsonl"
    of = ("--batch", "8", "--target", "host-vulkan", "--database", str(file))
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        options = ("--trials", "8", "--rounds", "3", "--devices", url)
        assert main(["tune", str(model), *of, *options]) == ExitCode.OK
    assert "medians of 3 in turns" in capsys.readouterr().out
    records = read(file).records
    assert sum(not record.kept for record in records) >= 8
    assert not any(record.reason for record in records)
    found = gpu_here("vulkan")
    assert {(each.device.name, each.device.driver) for each in records} == {
        (found.name, found.driver)
    }
