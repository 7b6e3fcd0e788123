"""Models of EMDL'21 on the emulated phone: their losses are the host's, and nothing is timed."""

import json
from pathlib import Path

import pytest

from benchmarks.suites import values

pytestmark = pytest.mark.device


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batches"), [("lenet", "1,4"), ("squeezenet", "1")])
def test_losses_are_the_hosts(
    phone, model: str, batches: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    file = tmp_path / "values.jsonl"
    argv = ["--models", model, "--batch", batches, "--device", phone.url, "-o", str(file)]
    assert values.main(argv) == 0
    head, *rows = map(json.loads, file.read_text().splitlines())
    assert head["values"]["emulated"]
    assert [row["batch"] for row in rows] == [int(batch) for batch in batches.split(",")]
    assert not any("seconds" in key for row in rows for key in row)
    assert capsys.readouterr().out.count("as on this machine") == len(rows)
    # What has a row is not measured again, and other losses are reported.
    monkeypatch.delattr(values, "_values")
    assert values.main(argv) == 0
    rows[0]["there"] = rows[0]["there"][:1] * 3
    file.write_text("".join(f"{json.dumps(line)}\n" for line in (head, *rows)))
    assert values.main(argv) == 1
    assert "its losses are" in capsys.readouterr().out
