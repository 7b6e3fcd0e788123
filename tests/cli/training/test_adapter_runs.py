"""`--adapter NAME` of `odtc train` and `odtc predict`: several adapters in one checkpoint."""

import ast
from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.cli.main import main
from odtc.cli.spoken import SPOKEN
from odtc.core.errors import ExitCode
from odtc.runtime_rpc import state as state_package
from tests.cli.conftest import Digits

STATE = Path(state_package.__path__[0])
RUN = ("--lr", "0.05", "--checkpoint", "c")


@pytest.fixture
def artifact(digits: Digits, here: Path, run_json) -> Path:
    run_json("compile", digits.model, "--batch", "16", "--lora", "rank=2,targets=fc*.weight")
    return here / "d.odtc"


def train(artifact: Path, digits: Digits, steps: int, *more: str) -> int:
    words = ["train", str(artifact), "--data", str(digits.train), "--steps", str(steps)]
    return main([*words, *RUN, *more])


def state(artifact: Path, path: str, name: str | None = None) -> tuple[int, dict[str, bytes]]:
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint(path)
        if name:
            trainer.set_adapter(name)
        return trainer.steps, {k: v.tobytes() for k, v in trainer._kept()}


def test_each_has_the_bits_of_a_run_alone(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = {"alice": "1", "bob": "2"}
    for name, seed in seeds.items():
        assert train(artifact, digits, 2, "--adapter", name, "--seed", seed) == 0
    assert "c has no adapter bob yet; the others stay in it" in capsys.readouterr().err
    for name, seed in seeds.items():
        assert train(artifact, digits, 4, "--adapter", name, "--seed", seed, "--resume") == 0
        assert f"resumed from c, adapter {name} at step 2 of 4" in capsys.readouterr().err
    for name, seed in seeds.items():
        assert train(artifact, digits, 4, "--seed", seed, "--checkpoint", f"{name}.alone") == 0
        assert state(artifact, "c", name) == state(artifact, f"{name}.alone")
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint("c")
        assert (trainer.adapters, trainer.active_adapter) == (("alice", "bob"), "bob")


def test_a_run_is_compared_with_that_of_its_adapter(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(artifact, digits, 2, "--adapter", "alice", "--seed", "1") == 0
    assert train(artifact, digits, 2, "--adapter", "bob", "--seed", "2") == 0
    more = ("--adapter", "alice", "--resume", "--seed", "2")
    assert train(artifact, digits, 4, *more) == ExitCode.ARTIFACT
    assert "seed: 1, now 2" in capsys.readouterr().err


def test_the_run_of_the_first_one_is_known_beside_others(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in a file without names, which the second one takes up."""
    assert train(artifact, digits, 2) == 0
    assert train(artifact, digits, 2, "--adapter", "new", "--seed", "3") == 0
    more = ("--adapter", "default", "--resume", "--seed", "9")
    assert train(artifact, digits, 4, *more) == ExitCode.ARTIFACT
    assert "seed: 0, now 9" in capsys.readouterr().err
    assert train(artifact, digits, 4, *more[:3]) == 0
    assert "does not say which data" not in capsys.readouterr().err
    more = ("--adapter", "new", "--resume", "--seed", "9")
    assert train(artifact, digits, 4, *more) == ExitCode.ARTIFACT
    assert "seed: 3, now 9" in capsys.readouterr().err


def test_one_begins_anew_and_the_others_stay(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("default", "bob", "eve"):
        assert train(artifact, digits, 3, "--adapter", name) == 0
    before = {name: state(artifact, "c", name) for name in ("default", "bob", "eve")}
    capsys.readouterr()
    # At work, and not at work.
    for name in ("eve", "bob"):
        assert train(artifact, digits, 3, "--adapter", name, "--seed", "7") == 0
        said = capsys.readouterr().err
        assert f"the adapter {name}, of step 3 in c, will be replaced; the others stay" in said
        after = {other: state(artifact, "c", other) for other in before}
        assert [other for other in before if after[other] != before[other]] == [name]
        before = after
    assert train(artifact, digits, 2, "--adapter", "bob") == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "adapter bob is of step 3, and this run of 2 steps would replace it" in said
    assert train(artifact, digits, 9) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "has the adapters default, eve, bob, and this run would replace all of them" in said
    assert {other: state(artifact, "c", other) for other in before} == before


def test_the_best_one_replaces_no_other(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("alice", "bob"):
        assert train(artifact, digits, 2, "--adapter", name) == 0
    before = Path("c").read_bytes()
    capsys.readouterr()
    more = ("--checkpoint", "d", "--best", "c")
    assert train(artifact, digits, 1, *more) == ExitCode.USAGE
    assert (
        "the adapters alice, bob, and this run would replace it and lose" in capsys.readouterr().err
    )
    assert Path("c").read_bytes() == before
    assert not Path("d").exists()
    assert train(artifact, digits, 3, "--adapter", "bob", "--best", "best") == 0
    assert train(artifact, digits, 3, "--adapter", "alice", "--best", "best") == 0


def test_the_one_at_work_goes_on_by_default(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(artifact, digits, 1) == 0
    assert train(artifact, digits, 2, "--adapter", "bob", "--resume") == 0
    assert "c has no adapter bob yet: it begins anew" in capsys.readouterr().err
    assert train(artifact, digits, 3, "--resume") == 0
    said = capsys.readouterr().err
    assert "of the adapters default, bob it is bob" in said
    assert [state(artifact, "c", name)[0] for name in ("default", "bob")] == [1, 3]


def test_a_bad_name_is_none(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not as without the option."""
    for name in ("alice", "bob"):
        assert train(artifact, digits, 1, "--adapter", name) == 0
    before = Path("c").read_bytes()
    words = ["predict", str(artifact), "--data", str(digits.train), "--checkpoint", "c"]
    for name in ("a b", "a/b", " "):
        capsys.readouterr()
        for more in ([], ["--resume"], ["--resume-anyway"]):
            assert train(artifact, digits, 2, "--adapter", name, *more) == ExitCode.USAGE
        assert main([*words, "--adapter", name]) == ExitCode.USAGE
        said = capsys.readouterr()
        assert said.err.count(f"{name!r} is not a valid adapter name") == 4
        assert not said.out
        assert "note" not in said.err
    assert Path("c").read_bytes() == before


def test_predictions_are_those_of_the_adapter(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in {"alice": "1", "bob": "2"}.items():
        assert train(artifact, digits, 2, "--adapter", name, "--seed", seed) == 0
    words = ["predict", str(artifact), "--data", str(digits.train), "--checkpoint", "c", "-o"]
    capsys.readouterr()
    for name in ("alice", "bob"):
        assert main([*words, f"{name}.npy", "--adapter", name]) == 0
        assert "--adapter NAME chooses" not in capsys.readouterr().err
    assert main([*words, "now.npy"]) == 0
    assert "of the adapters alice, bob it is bob" in capsys.readouterr().err
    alice, bob, now = (np.load(f"{name}.npy") for name in ("alice", "bob", "now"))
    np.testing.assert_array_equal(bob, now)
    assert not np.array_equal(alice, bob)
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint("c")
        trainer.set_adapter("alice")
        np.testing.assert_array_equal(trainer.predict(str(digits.train)), alice)
    assert main([*words, "x.npy", "--adapter", "eve"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "there is no adapter 'eve' in the checkpoint; it has alice, bob" in said
    assert "give one of them, such as --adapter bob" in said
    # Of a model neither is an option: nobody is asked for the other one.
    words[1] = str(digits.model)
    for more in (["--adapter", "bob"], ["--adapter", "bob", "--checkpoint", "c"]):
        assert main([*words[:4], *more]) == ExitCode.USAGE
        assert "is for artifacts, and d.onnx is an ONNX model" in capsys.readouterr().err


def test_one_begins_with_the_weights_of_another(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(artifact, digits, 2, "--adapter", "alice") == 0
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint("c")
        trainer.save_adapter("alice.ckpt")
        weights = {k: v.tobytes() for k, v in trainer.parameters().items()}
    more = ("--adapter", "bob", "--load-adapters", "alice.ckpt")
    capsys.readouterr()
    assert train(artifact, digits, 1, *more, "--lr", "0") == 0
    said = capsys.readouterr().err
    assert "its weights are taken up; its optimizer's state and its 2 steps are not" in said
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint("c")
        assert (trainer.active_adapter, trainer.steps) == ("bob", 1)
        assert {k: v.tobytes() for k, v in trainer.parameters().items()} == weights
    more = ("--load-adapters", "c", "--checkpoint", "d")
    assert train(artifact, digits, 1, *more) == ExitCode.ARTIFACT
    said = capsys.readouterr().err
    assert "it is a checkpoint of the adapters alice, bob with their base, not a file of" in said


def test_what_it_needs(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str], run_json
) -> None:
    words = ["train", str(artifact), "--data", str(digits.train), "--lr", "0.1", "--adapter", "a"]
    assert main(words) == ExitCode.USAGE
    assert "--adapter needs a checkpoint" in capsys.readouterr().err
    assert main([*words[:-1], "../a", "--checkpoint", "c"]) == ExitCode.USAGE
    assert "'../a' is not a valid adapter name" in capsys.readouterr().err
    words = ["predict", str(artifact), "--data", str(digits.train), "--adapter", "a"]
    assert main(words) == ExitCode.USAGE
    assert "--adapter needs a checkpoint" in capsys.readouterr().err
    run_json("compile", digits.model, "--batch", "16", "-o", "whole.odtc")
    assert train(Path("whole.odtc"), digits, 1, "--adapter", "a") == ExitCode.USAGE
    assert "leave --adapter out" in capsys.readouterr().err


def test_hints_name_options_of_the_command(
    artifact: Path, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("alice", "bob"):
        assert train(artifact, digits, 1, "--adapter", name) == 0
    capsys.readouterr()
    more = ("--load-adapters", "c", "--checkpoint", "other")
    assert train(artifact, digits, 1, *more) == ExitCode.ARTIFACT
    said = capsys.readouterr().err
    assert "whole: --checkpoint with --resume, and --adapter NAME for one of several" in said
    with odtc.load(artifact).trainer() as trainer:
        trainer.load_checkpoint("c")
        trainer.save_adapter("bob")
    assert train(artifact, digits, 1, "--load-adapters", "bob", "--checkpoint", "other") == 0
    said = capsys.readouterr().err
    assert "steps are not: --checkpoint with --resume takes up all of it" in said
    assert "trainer." not in said


def test_the_library_still_says_what_is_put_into_other_words() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in STATE.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    assert all(any(key in text for text in texts) for key in SPOKEN)
