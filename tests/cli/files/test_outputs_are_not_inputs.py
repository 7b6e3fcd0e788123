"""No command writes over what it reads: each says so before any work, and the file stays."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits

MODULE = "import torch\ndef make():\n    return torch.nn.Linear(4, 2), torch.zeros(3, 4)\n"
# What is read, and a command that would write there.
COMMANDS = {
    "export": ("my.py", "export my.py:make -o {}"),
    "export of a package": ("own_pack/age.py", "export own_pack.age:make -o {}"),
    "export of what imports": ("own_beside.py", "export own_imports.py:make -o {}"),
    "compile": ("m.onnx", "compile m.onnx -o {}"),
    "compile by a layout": ("plan.json", "compile m.onnx --layout plan.json -o {}"),
    "opt": ("m.onnx", "opt m.onnx -o {}"),
    "plan": ("m.html", "plan m.html --plot {}"),
    "adapt": ("m.onnx", "adapt m.onnx --classes 4 -o {}"),
    "pack": ("table.csv", "pack table.csv -o {}"),
    "report": ("rows.jsonl", "report rows.jsonl -o {}"),
    "profile": ("a.odtc", "profile a.odtc --trace {}"),
    "profile of data": ("d.npz", "profile a.odtc --data d.npz --html {}"),
    "inspect": ("a.html", "inspect a.html --plot {}"),
    "train": ("d.npz", "train a.odtc --data d.npz --steps 1 --lr 0.1 --export {}"),
    "sweep": ("a.odtc", "sweep a.odtc -o {}"),
    "compare": ("m.onnx", "compare m.onnx --batch 2 -o {}"),
    "bench": ("suite.toml", "bench --suite suite.toml -o {}"),
    "db export": ("tuned.jsonl", "db export {} --database tuned.jsonl"),
}
SUITE = """
title = "one"
make = ["none.py"]
root = "."
batches = [2]
models = ["digits"]
"""
# How else the same file is named.
WAYS: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda link, file: link.symlink_to(file),
    "hard link": lambda link, file: os.link(file, link),
}


@pytest.fixture
def files(digits: Digits, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(here))
    for name in ("m.onnx", "m.html"):
        shutil.copy(digits.model, name)
    for name in ("a.odtc", "a.html"):
        shutil.copy(digits.artifact, name)
    for name in ("plan.json", "table.csv", "rows.jsonl", "d.npz"):
        Path(name).write_text("{}\n")
    Path("tuned.jsonl").touch()
    Path("suite.toml").write_text(SUITE)
    Path("own_pack").mkdir()
    for name in ("my.py", "own_pack/age.py", "own_beside.py"):
        Path(name).write_text(MODULE)
    Path("own_imports.py").write_text("from own_beside import make\n")
    return here


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_read_stays(files: Path, capsys: pytest.CaptureFixture[str], command: str):
    read, argv = COMMANDS[command]
    before = Path(read).read_bytes()
    names = [f"./{read}", str(files / read)]
    for number, make in enumerate(WAYS.values()):
        names.append(f"{number}{Path(read).suffix}")
        make(Path(names[-1]), files / read)
    for name in names:
        assert main(argv.format(name).split()) == ExitCode.USAGE, name
        assert "the output would replace " in capsys.readouterr().err
        assert Path(read).read_bytes() == before


@pytest.mark.parametrize("command", ["compile m.onnx", "adapt m.onnx --classes 4"])
def test_the_data_beside_a_model_stay(
    files: Path, capsys: pytest.CaptureFixture[str], command: str
):
    model = onnx.load("m.onnx")
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    before = Path("m.data").read_bytes()
    assert main([*command.split(), "-o", "m.data"]) == ExitCode.USAGE
    assert "the output would replace the model's data" in capsys.readouterr().err
    assert Path("m.data").read_bytes() == before


def test_two_results_are_not_one_file(files: Path, capsys: pytest.CaptureFixture[str]):
    assert main("profile a.odtc --trace one.html --html ./one.html".split()) == ExitCode.USAGE
    assert "would replace another of the results" in capsys.readouterr().err
    assert not Path("one.html").exists()


def test_a_file_that_is_no_module_s_is_replaced(files: Path):
    Path("out.onnx").write_bytes(b"that of before")
    assert main("export my.py:make -o out.onnx".split()) == 0
    assert Path("out.onnx").read_bytes() != b"that of before"
