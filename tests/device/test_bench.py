"""A suite measured on a phone, through adb: what the file that can be sent holds."""

import json
from pathlib import Path

import pytest

from benchmarks import phones
from odtc.cli.main import main
from odtc.cli.measuring.sweep_tables import EMULATED
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.standin.adb_phone import AdbPhone

pytestmark = pytest.mark.device

ROOT = Path(__file__).parents[2]
SUITE = f"""
title = "Digits"
make = ["-m", "tests.comparison.make_digits"]
root = "{ROOT}"
batches = [4]
models = ["Digits"]
"""


def test_a_phone_that_is_emulated_is_marked(
    ready: AdbPhone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, output, page = (tmp_path / name for name in ("own.toml", "phone.jsonl", "page.md"))
    suite.write_text(SUITE)
    words = ["bench", "--suite", str(suite), "--device", f"adb://{ready.serial}", "--threads", "1"]
    assert main([*words, "--steps", "2", "--rounds", "1", "-o", str(output)]) == ExitCode.OK
    assert EMULATED in capsys.readouterr().out
    text = output.read_text()
    (head,), row = (list(json.loads(line).values()) for line in text.splitlines())
    assert (head["device"]["model"], head["device"]["emulated"]) == ("Stand-in", True)
    assert head["target"] == "android-cpu"
    assert True in row
    assert ready.serial not in text
    assert phones.main([str(output), "-o", str(page)]) == ExitCode.OK
    (line,) = (line for line in page.read_text().splitlines() if "Stand-in" in line)
    assert "| Digits | 4 | big | 1 | emulated |" in line


def test_a_reason_does_not_name_the_phone(ready: AdbPhone, tmp_path: Path) -> None:
    suite, output = tmp_path / "own.toml", tmp_path / "phone.jsonl"
    suite.write_text(SUITE)
    words = ["bench", "--suite", str(suite), "--device", f"adb://{ready.serial}", "--threads", "1"]
    assert main([*words, "--target", "host-cpu", "-o", str(output)]) == ExitCode.OK
    text = output.read_text()
    assert "adb://SERIAL is aarch64" in json.loads(text.splitlines()[1])["reason"]
    assert ready.serial not in text
    assert ready.serial.replace(":", "-") not in text
