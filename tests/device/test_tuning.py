"""`odtc tune` on devices: the emulated phone, alone and as several of which one dies; a board."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odtc.autoschedule.tuning.database import read
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from odtc.runtime_rpc.standin.systems import python
from tests.cli.training.digits import BATCH, Digits, make_digits
from tests.meanwhile import as_soon_as
from tests.needs import needs_emulated_arm
from tests.runtime_rpc.own_server import ARM, serving

TARGET = "linux-arm64-cpu{threads=1}"
ANDROID = "android-cpu{threads=1}"
# Fixtures with the URL of an odtc-device, and the target that it is for.
URLS = {"board": TARGET, "handset": ANDROID, "through_adb": ANDROID}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return make_digits(tmp_path_factory.mktemp("digits"))


def argv(digits: Digits, file: Path, *options: str, target: str = TARGET) -> list[str]:
    of = ("--batch", str(BATCH), "--target", target, "--database", str(file))
    return ["tune", str(digits.model), *of, "--rounds", "3", *options]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[str]:
    """The URL of odtc-device for Linux."""
    with serving(tmp_path / "sessions", server=ARM) as url:
        yield url


@pytest.fixture
def handset(phone: EmulatedPhone) -> str:
    """The same of that for Android."""
    return phone.url


@pytest.fixture
def through_adb(ready: AdbPhone) -> str:
    """The same behind adb."""
    return f"adb://{ready.serial}"


@pytest.mark.slow
@pytest.mark.device
@needs_emulated_arm()
@pytest.mark.parametrize(("where", "target"), URLS.items())
def test_kernels_are_measured_without_tvm_on_the_device(
    where: str,
    target: str,
    digits: Digits,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "records.jsonl"
    url = request.getfixturevalue(where)
    options = ("--devices", url, "--trials", "8")
    assert main(argv(digits, file, *options, target=target)) == ExitCode.OK
    assert "EMULATED" in capsys.readouterr().out
    records = read(file).records
    assert sum(not record.kept for record in records) >= 8
    assert not any(record.reason for record in records)
    assert {(each.device.name, each.device.emulated) for each in records} == {("aarch64", True)}


@pytest.mark.slow
@pytest.mark.device
def test_a_session_on_a_phone_applies_its_records_and_computes_the_same(
    phone_with_tvm: EmulatedPhone,
    digits: Digits,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "records.jsonl"
    # It ends with steps of both, whose losses it compares.
    options = ("--devices", phone_with_tvm.url, "--trials", "30")
    assert main(argv(digits, file, *options)) == ExitCode.OK
    out = capsys.readouterr().out
    assert "EMULATED" in out
    records = read(file).records
    trials = [record for record in records if not record.kept]
    assert len(trials) >= 30
    assert not any(record.reason for record in trials)
    assert all(record.device.emulated for record in records)
    # They are of this emulator: an unknown device does not get them.
    of = ("--batch", str(BATCH), "--target", TARGET, "--database", str(file))
    artifact = str(tmp_path / "a.odtc")
    compiled = ["compile", str(digits.model), *of, "-o", artifact]
    assert main(compiled) == ExitCode.OK
    assert "when measured" not in capsys.readouterr().err
    if any(record.is_better for record in records if record.kept):
        assert main([*compiled, "--device", phone_with_tvm.url]) == ExitCode.OK
        assert "when measured: " in capsys.readouterr().err


@pytest.fixture
def second() -> Iterator[EmulatedPhone]:
    with EmulatedPhone(key="second", system=python) as running:
        yield running


@pytest.mark.slow
@pytest.mark.device
def test_a_device_that_dies_is_dropped_and_its_trials_are_done_by_another(
    phone_with_tvm: EmulatedPhone,
    second: EmulatedPhone,
    digits: Digits,
    tmp_path: Path,
    capsys: Any,
) -> None:
    file = tmp_path / "records.jsonl"

    options = ("--devices", phone_with_tvm.url, second.url, "--trials", "40")
    with as_soon_as(lambda: read(file).records, second.stop):
        assert main(argv(digits, file, *options)) == ExitCode.OK
    keys = [record.key for record in read(file).records]
    assert len(keys) == len(set(keys)) >= 40
    assert not any(record.reason for record in read(file).records)
    assert "second" in capsys.readouterr().err
