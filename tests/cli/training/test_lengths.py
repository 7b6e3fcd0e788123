"""Steps of several lengths from the command line: planned, compiled, inspected and trained."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from odtc.cli.main import main
from tests.runtime_rpc.lengths.languages import LOSS, TARGET, decoder, ragged, save

STEP = ["--target", TARGET, "--batch", "2", "--loss", LOSS, "--lengths", "4", "8", "12"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lengths")
    module = decoder(is_causal=True, has_mask=False)
    save(module, folder / "m.onnx")
    assert main(["compile", str(folder / "m.onnx"), *STEP, "-o", str(folder / "m.odtc")]) == 0
    inputs, labels = ragged(module, (3, 4, 2, 1, 4, 3, 2, 12), 12, 0)
    np.savez(folder / "rows.npz", label=labels, input_ids=inputs["input_ids"])
    return folder


def test_a_plan_has_tokens_and_bytes_of_each(folder: Path, capsys) -> None:
    assert main(["plan", str(folder / "m.onnx"), *STEP]) == 0
    head, *rows = capsys.readouterr().out.splitlines()[:6]
    assert re.split(r"  +", head) == [
        *("length", "tokens", "arena", "bytes", "at least", "tokens/s, modelled")
    ]
    assert rows[3:] == ["", "at length 12:"]
    cells = [re.split(r"  +", row) for row in rows[:3]]
    assert [row[:2] for row in cells] == [["12", "24"], ["8", "16"], ["4", "8"]]
    assert main(["inspect", str(folder / "m.odtc"), "--json"]) == 0
    lengths = json.loads(capsys.readouterr().out)["lengths"]
    for length, _, _, nbytes, *_ in cells:
        # The loss lies beside the arena.
        assert lengths[length]["train_step"] == int(nbytes.replace(",", "")) + 4


def test_a_run_says_at_which_lengths_it_took_steps(folder: Path, capsys) -> None:
    data = ["--data", str(folder / "rows.npz")]
    assert main(["inspect", str(folder / "m.odtc")]) == 0
    assert "length" in capsys.readouterr().out
    assert main(["train", str(folder / "m.odtc"), *data, "--epochs", "1", "--lr", "0.1"]) == 0
    said = capsys.readouterr().err
    assert "note: " in said
    assert "samples by length: 7 at 4, 1 at 12; batches are of one length each" in said
    assert "steps by length: 3 at 4, 1 at 12" in said
    assert "for the memory left" not in said


def test_what_compile_refuses_check_refuses(folder: Path, capsys) -> None:
    model, *options = str(folder / "m.onnx"), "--lengths", "4", "8", "--shape", "length=4"
    texts = []
    for command in ("check", "compile"):
        assert main([command, model, *STEP, *options]) != 0
        texts.append(capsys.readouterr().err.strip().splitlines()[-3:])
    assert texts[0] == texts[1]
    assert "the model has no symbolic dimension other than the batch" in texts[0][0]
