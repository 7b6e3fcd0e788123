"""Profiles of steps of several lengths: each is of one of them, with the operators of that one."""

import json
import warnings
from pathlib import Path

import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import ArtifactError, UsageError
from odtc.runtime_rpc.profile.record import Phase
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    decoder,
    ragged,
    save,
)

MODULE = decoder(is_causal=True, has_mask=True)
LR = 0.01


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = save(MODULE, tmp_path_factory.mktemp("lengths") / "decoder.onnx")
    return odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS)


def take(trainer: odtc.Trainer, *lengths: int) -> None:
    for length in lengths:
        trainer.step(*ragged(MODULE, (length, 1), length, 0), lr=LR)


@pytest.mark.parametrize("length", LENGTHS)
def test_operators_and_phases_are_those_of_the_length(length: int, artifact: odtc.Artifact) -> None:
    number = [*artifact.manifest.lengths].index(length)
    with artifact.trainer(threads=1) as trainer:
        take(trainer, *LENGTHS)
        with warnings.catch_warnings(action="error"), trainer.profile() as part:
            take(trainer, length, length)
            trainer.evaluate(ragged(MODULE, (3, 3), 3, 0)[0])
    profile = part.profile
    assert (profile.length, len(profile.steps)) == (length, 2)
    # Names of their own, as all lengths lie in one library.
    own = {each.kernel.partition("__")[2] for each in profile.operators}
    assert own == {str(number) if number else ""}
    assert {move.kind for move in profile.moves} == {"upload"}
    assert profile.peak_bytes == max(each.live_bytes for each in profile.operators)
    # The share of each label is a gradient that comes first; it makes no backward pass of the rest.
    first = {each.kernel.partition("__")[0]: each.phase for each in profile.operators}
    assert first["softmax"] is first["take"] is first["layer_norm"] is Phase.FORWARD
    assert first["softmax_gradient"] is Phase.BACKWARD
    kinds = {str(name) for each in profile.operators for name in each.nodes}
    assert any("gradient" in kind for kind in kinds)


def test_steps_at_other_lengths_are_left_out_and_said(artifact: odtc.Artifact) -> None:
    with artifact.trainer(threads=1) as trainer:
        left_out = r"the 2 steps at a length of 12, .* 1 at 8, 3 at 4:"
        with pytest.warns(UserWarning, match=left_out), trainer.profile() as part:
            take(trainer, 12, 4, 8, 4, 12, 4)
        assert (part.profile.length, len(part.profile.steps), part.profile.moves) == (12, 2, ())
        left_out = "the 1 steps at a length of 8"
        with pytest.warns(UserWarning, match=left_out), trainer.profile(length=8) as part:
            take(trainer, 12, 4, 8)
        profile = part.profile
        assert (profile.length, len(profile.steps)) == (8, 1)
        seconds = sum(profile.operator_seconds)
        assert 0 < seconds == pytest.approx(sum(c.seconds for c in profile.steps[0][0].calls))
        none = r"no step was taken at a length of 4; .* 1 at 12"
        with pytest.raises(UsageError, match=none), trainer.profile(length=4):
            take(trainer, 12)
        with pytest.raises(UsageError, match="its lengths are 12, 8, 4"), trainer.profile(length=5):
            raise AssertionError


def test_an_artifact_without_plans_of_shorter_lengths(artifact: odtc.Artifact) -> None:
    with artifact.trainer(threads=1) as trainer:
        memory = trainer._bundle.opened().memory
        before = memory.read_text()
        try:
            memory.write_text(json.dumps(json.loads(before)[:1]))
            with pytest.raises(ArtifactError, match="of an older odtc"), trainer.profile():
                raise AssertionError
        finally:
            memory.write_text(before)


def test_the_command(
    artifact: odtc.Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact.save(path := tmp_path / "m.odtc")
    for more, length in (([], 12), (["--length", "4"], 4)):
        assert main(["profile", str(path), "--steps", "3", "--threads", "1", "--json", *more]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["length"], len(told["steps"])) == (length, 3)
    assert main(["profile", str(path), "--steps", "1", "--threads", "1"]) == 0
    assert "1 steps at a length of 12: " in capsys.readouterr().out
    assert main(["profile", str(path), "--length", "5"]) == 2
    said = capsys.readouterr().err
    assert "its lengths are 12, 8, 4" in said
    # Before anything is loaded and run.
    assert "loading" not in said
    assert "taking steps" not in said
