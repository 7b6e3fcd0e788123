"""`odtc export`: its output, and its errors for a user's file that fails."""

import json
import sys
from pathlib import Path

import onnx
import pytest

from odtc.cli.main import main

SOURCE = """
import sys
import torch
from beside import Net
print("a word of the file's own")

def make():
    return Net(), {"image": torch.zeros(3, 4)}

def alone():
    return Net()

def number():
    return 3

def broken():
    return Net().nothing

net = Net()
"""
BESIDE = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, image):
        return self.fc(image)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with a module beside it, in another folder than this one."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "net.py").write_text(SOURCE)
    (tmp_path / "own" / "beside.py").write_text(BESIDE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    return "own/net.py"


def test_a_module_becomes_a_file(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", f"{source}:make", "--output-names", "logits", "-o", "out.onnx"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[:5] == [
        "out.onnx",
        "  input image    float32[batch, 4]",
        "  output logits  float32[batch, 2]",
        "  parameters     2",
        "  buffers        0",
    ]
    assert "a word of the file's own" in said.err
    assert {t.name for t in onnx.load("out.onnx").graph.initializer} == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize("name", ["alone", "net", "Net"])
def test_inputs_are_given(source: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input", "image=2x4", "--batch-axis", "image=none", "--json"]
    assert main(["export", f"{source}:{name}", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == "net.onnx"
    assert found["inputs"] == {"image": "float32[2, 4]"}
    assert found["weights"]["parameters"] == ["fc.weight", "fc.bias"]


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [
        ("alone", [], "there are no example inputs"),
        ("make", ["--input", "image=2x4"], "example inputs of the function, and --input"),
        ("number", [], "it returns int"),
        ("broken", [], "AttributeError: 'Net' object has no attribute 'nothing'"),
        ("nobody", [], "has no attribute 'nobody'"),
        ("alone", ["--input", "image=2y4"], "'image=2y4' is not an example input"),
        ("alone", ["--input", "image=2x4:complex64"], "is not an example input"),
        ("alone", ["--input", "2x4"], "'2x4' is not an example input"),
        ("alone", ["--input", "x=2x4"], "name, as in --input image=2x3x32x32"),
        ("make", ["--batch-axis", "image"], "'image' is not the batch axis of an input"),
        ("make", ["--batch-axis", "image=--1"], "'image=--1' is not the batch axis"),
        ("make", ["--batch-axis", "image=5"], "none is number 5"),
    ],
)
def test_what_is_wrong_is_said(
    source: str, name: str, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", f"{source}:{name}", *words]) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert not said.out
    assert not Path("net.onnx").exists()
