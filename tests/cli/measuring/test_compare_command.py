"""`odtc compare`: rows that are kept, a comparison that goes on, exit codes."""

import json
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.comparison.turns import Round
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits
from tests.comparison.conftest import MODULE


def test_a_model_is_compared_and_goes_on_after_an_interrupt(
    digits: Digits, here: Path, monkeypatch: pytest.MonkeyPatch, run_json, capsys
) -> None:
    rows, count = Round.rows, 0

    def interrupted(self: Round, *arguments) -> list:
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        return rows(self, *arguments)

    argv = ["compare", str(digits.model), "--with", "onnxruntime-training", "--steps", "2"]
    argv += ["--rounds", "2", "--data", str(digits.train), "--batch", "4", "--lr", "0.001"]
    monkeypatch.setattr(Round, "rows", interrupted)
    assert main(argv) == ExitCode.INTERRUPTED
    kept = Path("d.jsonl").read_text()
    assert len(kept.splitlines()) == 3
    capsys.readouterr()
    found = run_json(*argv)["rows"]
    assert Path("d.jsonl").read_text().startswith(kept)
    assert [(row["round"], row["engine"]) for row in found] == [
        (number, name) for number in (0, 1) for name in ("odtc", "onnxruntime-training")
    ]
    assert {row["outcome"] for row in found} == {"trained"}
    head = json.loads(kept.splitlines()[0])["comparison"]
    assert head["machine"]["cores"] >= 1
    assert head["versions"]["onnxruntime-training"]
    # All is there: it is only printed, and a table has the ratio.
    assert main(argv) == ExitCode.OK
    assert count == 3
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:4] == ["model", "batch", "threads", "engine"]
    assert printed[1].split()[:4] == ["d", "4", "1", "odtc"]
    # A third round that is not like the others, in the times of the peer alone.
    third = [row | {"round": 2} for row in found[:2]]
    third[1]["seconds"] = [3 * seconds for seconds in third[1]["seconds"]]
    with Path("d.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in third)
    assert main([*argv[:-8], "--rounds", "3", *argv[-6:]]) == ExitCode.OK
    assert count == 3
    place = "d, batch 4, threads 1, onnxruntime-training"
    said = f"{place}: rounds differ by more than 10%: the machine was too noisy"
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_other_losses_have_an_exit_code_of_their_own(digits: Digits, here: Path, capsys) -> None:
    argv = ["compare", str(digits.model), "--with", "pytorch", "--steps", "1", "--lr", "0.01"]
    assert main([*argv, "--module", f"{MODULE}Frozen"]) == ExitCode.PARITY
    said = capsys.readouterr()
    assert "other losses" in said.out
    assert "error: pytorch does not train as odtc does: its losses are" in said.err


@pytest.mark.slow
def test_the_roofline_is_measured_where_that_is_asked_for(digits: Digits, here, run_json) -> None:
    argv = ["compare", str(digits.model), "--with", "onnxruntime-training", "--steps", "1"]
    rows = run_json(*argv, "--roofline", "--batch", "1,4")["rows"]
    assert len(rows) == 4
    # It is measured once for all batches.
    assert len({(row["fma"], row["copy"]) for row in rows}) == 1
    assert rows[0]["fma"] > rows[0]["flops"] / min(rows[0]["seconds"])
    assert rows[0]["copy"] > 1e8
    assert rows[0]["moved"] > 0
    assert main(["report", "d.jsonl"]) == ExitCode.OK
    assert 'id="roofline"' in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--with", "jax"], "no peer 'jax'; there are onnxruntime-training, pytorch"),
        (["--batch", "1,x"], "'x' is not a whole number of at least 1"),
        (["--budget", "some"], "'some' is not a positive number of bytes"),
        (["--memory-limit", "much"], "'much' is not a positive number of bytes"),
        (["--data", "nowhere.npz"], "the data file does not exist"),
    ],
)
def test_options_that_make_no_sense(digits: Digits, here: Path, capsys, options, text) -> None:
    assert main(["compare", str(digits.model), *options]) == ExitCode.USAGE
    assert text in capsys.readouterr().err
    assert not Path("d.jsonl").exists()
