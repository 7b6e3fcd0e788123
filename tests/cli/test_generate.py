"""What a language model says by `odtc generate` is what it says in PyTorch."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.runtime_rpc.data.text.words import WORDS, write_tokenizer

LENGTH = 5


class Model(nn.Module):
    """The sum of the words before; a mask leaves out what fills the row."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(len(WORDS), 8), nn.Linear(8, len(WORDS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.words(input_ids) * attention_mask[..., None]
        return self.head(torch.cumsum(x, 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    folder = tmp_path_factory.mktemp("generate")
    torch.manual_seed(3)
    module, example = Model(), torch.ones(2, LENGTH, dtype=torch.int64)
    odtc.from_torch(module, (example, example), folder / "m.onnx")
    write_tokenizer(folder / "t.json")
    return module, folder


def generate(folder: Path, *more: str, model: str = "m.onnx") -> int:
    return main(["generate", str(folder / model), "--tokenizer", str(folder / "t.json"), *more])


def test_the_likeliest_word_each(
    made: tuple[nn.Module, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    module, folder = made
    ids = [0, *map(WORDS.index, ("the", "cat"))]
    for _ in range(6):
        seen = torch.tensor([ids[-LENGTH:]])
        with torch.no_grad():
            ids.append(int(module(seen, torch.ones_like(seen))[0, -1].argmax()))
    assert len(set(ids[3:])) > 1
    assert generate(folder, "--prompt", "the cat", "--tokens", "6", "--json") == ExitCode.OK
    printed = capsys.readouterr()
    assert json.loads(printed.out)["tokens"] == ids[3:]
    assert "note: the model sees 5 tokens; once there are more, the last of them" in printed.err
    end = WORDS[ids[5]]
    found = ids[3:].index(ids[5])
    more = ("--prompt", "the cat", "a dog", "--tokens", "6", "--end-token", end)
    assert generate(folder, *more) == ExitCode.OK
    first, _ = capsys.readouterr().out.splitlines()
    words = [WORDS[number] for number in ids[1 : 3 + found]]
    assert first == " ".join(word for word in words if not word.startswith("<"))


def test_what_says_nothing(
    made: tuple[nn.Module, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made[1]
    write_tokenizer(tmp_path / "t.json")
    assert generate(folder, "--prompt", "the", "--end-token", "<end>") == ExitCode.USAGE
    odtc.from_torch(nn.Linear(4, 3), torch.zeros(2, 4), tmp_path / "linear.onnx")
    assert generate(tmp_path, "--prompt", "the", model="linear.onnx") == ExitCode.UNSUPPORTED
    assert "the model is not a language model: its inputs are input" in capsys.readouterr().err
    flat, example = nn.Sequential(nn.Embedding(11, 4), nn.Flatten()), torch.ones(2, 5).long()
    odtc.from_torch(flat, example, tmp_path / "flat.onnx")
    assert generate(tmp_path, "--prompt", "the", model="flat.onnx") == ExitCode.MODEL
    assert "has shape [1, 20], not the shape of word scores" in capsys.readouterr().err
    odtc.from_torch(flat, example, tmp_path / "fixed.onnx", batch_axis=None)
    assert generate(tmp_path, "--prompt", "the", model="fixed.onnx") == ExitCode.UNSUPPORTED
    assert "takes no single row of tokens" in capsys.readouterr().err
