"""README.md: short, one picture, and what it shows can be done."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from odtc.cli.main import build_parser
from tests.pages.followed import DOCS
from tests.pages.test_design import links, titles

README = DOCS.parent / "README.md"
MOST_LINES = 120


def test_it_is_short_and_has_one_picture() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert len(re.findall(r"!\[.+\]\(.+\.svg\)", text)) == 1


def test_its_links_lead_somewhere() -> None:
    for written, path, title in links(README):
        assert path.exists(), written
        assert not title or title in titles(path), written


def test_each_command_is_one_of_odtcs() -> None:
    lines = re.findall(r"^    (odtc .*)$", README.read_text(), re.M)
    assert len(lines) == 6
    for line in lines:
        build_parser().parse_args(shlex.split(line, comments=True)[1:])


def test_its_snippet_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    before = module[1].weight.detach().clone()
    chance = np.random.default_rng(0)
    images = chance.standard_normal((1408, 1, 8, 8), dtype=np.float32)
    np.savez("train.npz", x=images, y=images.reshape(1408, 64)[:, :10].argmax(axis=1))
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.M | re.S)
    names = {"module": module, "example_inputs": (torch.zeros(32, 1, 8, 8),)}
    exec(snippet, names)
    assert Path("trained.onnx").is_file()
    assert not torch.equal(before, module[1].weight)
    assert names["loss"] < 2
