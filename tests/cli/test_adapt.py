"""`odtc adapt`: what it writes is trained as any other model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from tests.cli.training.digits import Digits


@pytest.fixture
def four(digits: Digits, here: Path, run_json) -> Path:
    """The digits model with four classes."""
    done = run_json("adapt", digits.model, "--classes", 4, "-o", "four.onnx")
    assert (done["weight"], done["bias"], done["classes"]) == ("fc2.weight", "fc2.bias", 4)
    return here / done["path"]


def weights_of(path: Path) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def test_only_the_head_is_new(digits: Digits, four: Path):
    old, new = weights_of(digits.model), weights_of(four)
    changed = {name for name in new if not np.array_equal(old[name], new[name])}
    assert changed == {"fc2.weight", "fc2.bias"}


def test_a_frozen_backbone_is_frozen_in_the_file(digits: Digits, here: Path, run_json):
    argv = ["adapt", digits.model, "--classes", 4, "--freeze-backbone", "-o", "head.onnx"]
    assert "frozen" in run_json(*argv)["said"][-1]
    names = run_json("check", "head.onnx", "--all")["parameters"]["names"]
    assert names == ["fc2.weight", "fc2.bias"]
    # A glob other than * goes over what is frozen, too; and a second head keeps the list.
    more = run_json("check", "head.onnx", "--all", "--train", "fc*")["parameters"]["names"]
    assert set(more) == {"fc1.weight", "fc1.bias", *names}
    run_json("adapt", "head.onnx", "--classes", 3, "-o", "again.onnx")
    assert run_json("check", "again.onnx", "--all")["parameters"]["names"] == names


def test_the_new_head_is_trained(four: Path):
    rng = np.random.default_rng(0)
    x, y = rng.random((8, 1, 8, 8), np.float32), np.arange(8) % 4
    trainer = odtc.compile(four, batch=8, train="last{k=1}").trainer(threads=1)
    losses = [trainer.step(x, y, lr=0.02) for _ in range(8)]
    # Fresh scores are near to each other: the first loss is that of a guess.
    assert losses[0] == pytest.approx(np.log(4), abs=0.5)
    assert losses[-1] < losses[0]
    assert trainer.evaluate(x).shape == (8, 4)


def test_the_model_is_not_replaced(digits: Digits, capsys: pytest.CaptureFixture[str]):
    before = digits.model.read_bytes()
    argv = ["adapt", str(digits.model), "--classes", "4", "-o", str(digits.model)]
    assert main(argv) == ExitCode.USAGE
    assert "would replace the model" in capsys.readouterr().err
    assert digits.model.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--of logits --seed 3", {"of": "logits", "seed": 3}),
        ("--at {features}", {"at": "{features}"}),
        ("--freeze-backbone", {"freeze_backbone": True}),
    ],
)
def test_python_writes_what_the_command_does(words: str, options, digits: Digits, here: Path):
    features = onnx.load(digits.model).graph.node[-1].input[0]
    argv = ["adapt", str(digits.model), "--classes", "4", "-o", "one.onnx"]
    assert main([*argv, *words.format(features=features).split()]) == ExitCode.OK
    given = {k: v.format(features=features) if k == "at" else v for k, v in options.items()}
    head = odtc.replace_head(digits.model, 4, here / "other.onnx", **given)
    assert head.classes == 4
    assert (here / "one.onnx").read_bytes() == (here / "other.onnx").read_bytes()


def test_the_head_first_and_then_more_of_it(digits: Digits, here: Path):
    """As who fine-tunes in two parts does it, with the weights of the first."""
    odtc.replace_head(digits.model, 10, here / "new.onnx", freeze_backbone=True)
    first = odtc.compile(here / "new.onnx", batch=16).trainer(threads=1)
    with np.load(digits.train) as data:
        x, y = data["image"][:16], data["y"][:16]
    first.step(x, y, lr=0.05)
    first.export_onnx(here / "half.onnx", training=True)
    second = odtc.compile(here / "half.onnx", batch=16, train=["fc*", "conv*"]).trainer(threads=1)
    assert second.evaluate(x).tobytes() == first.evaluate(x).tobytes()
    before = second.parameters()
    second.step(x, y, lr=0.05)
    after = second.parameters()
    assert {name for name in after if (before[name] != after[name]).any()} == {*after}
