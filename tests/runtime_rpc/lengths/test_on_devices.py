"""Steps of several lengths by odtc-device: PyTorch's losses, and the bits of this machine."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.cli.main import main
from odtc.core.errors import DataError, DeviceError, UnsupportedError
from odtc.runtime_rpc.engines.served import ServedEngine
from odtc.runtime_rpc.native.interface import NativeError
from odtc.runtime_rpc.trainer import Trainer
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    WORDS,
    Batch,
    decoder,
    loss_of,
    ragged,
    save,
)
from tests.runtime_rpc.own_server import PYTHON, SANITIZED, serving
from tests.runtime_rpc.trainer.test_resume import everything

MODULE = decoder(is_causal=True, has_mask=True)
UPDATE = odtc.Update(odtc.AdamW(), ema=0.9)
ROWS = ((3, 4), (12, 9), (7, 2), (5, 5), (1, 2), (8, 6), (12, 12))
TAKEN = (4, 12, 8, 8, 4, 8, 12)
LR = 0.01


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that watches its own memory."""
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=SANITIZED) as running:
        yield running


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = save(MODULE, tmp_path_factory.mktemp("lengths") / "decoder.onnx")
    options = {"batch": BATCH, "loss": LOSS, "optimizer": UPDATE, "eval_batch": 1}
    return odtc.compile(path, TARGET, lengths=LENGTHS, **options)


def batches() -> list[Batch]:
    return [ragged(MODULE, rows, LENGTHS[-1], seed) for seed, rows in enumerate(ROWS)]


def same_outputs(there: Trainer, here: Trainer) -> None:
    """Compares outputs of rows of a length, between lengths, and of more and fewer samples."""
    for width, samples in ((4, 2), (7, 3), (12, 1), (1, 2)):
        inputs, _ = ragged(MODULE, (width,) * samples, width, width)
        for ema in (False, True):
            ours, theirs = here.evaluate(inputs, ema=ema), there.evaluate(inputs, ema=ema)
            assert theirs.shape == (samples, width, WORDS)
            np.testing.assert_array_equal(theirs, ours)


def test_losses_are_those_of_rows_alone(url: str, artifact: odtc.Artifact) -> None:
    module = decoder(is_causal=True, has_mask=True)
    update = torch.optim.AdamW(module.parameters(), lr=LR, weight_decay=0.01)
    with artifact.trainer(url) as trainer:
        assert isinstance(trainer._engine, ServedEngine)
        for batch, rows, length in zip(batches(), ROWS, TAKEN, strict=True):
            update.zero_grad()
            expected = loss_of(module, batch, rows)
            expected.backward()
            update.step()
            assert trainer.step(*batch, lr=LR) == pytest.approx(expected.item(), rel=1e-6)
            assert trainer.length == length
            assert trainer.plan == artifact.manifest.lengths[length].plans[0]
        weights = trainer.parameters()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(weights[name], value.numpy(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("per_call", [1, 3, 10])
def test_calls_of_several_lengths_have_the_bits_of_this_machine(
    url: str, artifact: odtc.Artifact, per_call: int, tmp_path: Path
) -> None:
    with artifact.trainer(url) as there, artifact.trainer() as here:
        expected, lengths = [here.step(*each, lr=LR) for each in batches()], []
        losses = []
        for loss in there.train(batches(), LR, per_call):
            losses.append(loss)
            lengths.append(there.length)
        assert losses == expected
        assert lengths == [*TAKEN]
        same_outputs(there, here)
        assert everything(there, tmp_path / "there") == everything(here, tmp_path / "here")
        # What an evaluation was at is nothing to the next step.
        for batch in batches()[:2]:
            assert there.step(*batch, lr=LR) == here.step(*batch, lr=LR)


def test_a_checkpoint_goes_on_over_there_and_here(
    url: str, artifact: odtc.Artifact, tmp_path: Path
) -> None:
    with artifact.trainer() as here:
        expected = [here.step(*each, lr=LR) for each in batches()]
    with artifact.trainer(url) as first:
        found = list(first.train(batches()[:3], LR, 2))
        first.save_checkpoint(tmp_path / "run")
    with artifact.trainer(url) as second:
        second.load_checkpoint(tmp_path / "run")
        found += list(second.train(batches()[3:5], LR, 2))
        second.save_checkpoint(tmp_path / "run")
    with artifact.trainer() as last:
        last.load_checkpoint(tmp_path / "run")
        found += [last.step(*each, lr=LR) for each in batches()[5:]]
    assert found == expected


def test_evaluations_behind_a_call_that_failed_half_way(url: str, artifact: odtc.Artifact) -> None:
    """The device stays at the length of the step that failed, and the client does not know it."""
    inputs, _ = ragged(MODULE, (12, 12), 12, 0)
    with artifact.trainer(url) as trainer:
        before = trainer.evaluate(inputs)
        steps = [trainer._converter.fed(*batch) for batch in batches()[:2]]
        (ids,) = (array for item, array in steps[0].whole.items() if "ids" in item.spec.name)
        ids[0, 0] = WORDS  # which the converter would have found
        with pytest.raises(DeviceError, match="is 32, outside"):
            trainer._engine.take([(fed, LR) for fed in steps], 0, lambda: None)
        np.testing.assert_array_equal(trainer.evaluate(inputs), before)


def test_fit_and_the_command_line(
    url: str, artifact: odtc.Artifact, tmp_path: Path, capsys
) -> None:
    inputs, labels = ragged(MODULE, (3, 4, 12, 2, 8, 7, 3, 3), LENGTHS[-1], 1)
    samples = inputs, labels
    with artifact.trainer(url) as there, artifact.trainer() as here:
        rows = [
            each.fit(samples, lr=LR, epochs=2, validation=samples, seed=3) for each in (there, here)
        ]
    assert rows[0]["val_loss"] == rows[1]["val_loss"]
    artifact.save(tmp_path / "m.odtc")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    np.savez(tmp_path / "rows.npz", label=labels, input_ids=ids, attention_mask=mask)
    command = ["train", str(tmp_path / "m.odtc"), "--data", str(tmp_path / "rows.npz")]
    command += ["--epochs", "2", "--lr", "0.1", "--seed", "5"]
    told = []
    for where in (["--device", url, "--steps-per-call", "3"], []):
        assert main([*command, *where]) == 0
        told.append(re.findall("steps by length: .*", capsys.readouterr().err))
    assert told[0] == told[1]
    # Of each step of a call, and not of its last one as often.
    assert len(re.findall(r"\d at \d", *told[0])) > 1


def test_a_profile_of_several_lengths_there(url: str, artifact: odtc.Artifact) -> None:
    batches = [ragged(MODULE, (places, 1), 12, places) for places in (12, 4, 8, 3)]
    with artifact.trainer(url) as trainer:
        with pytest.warns(UserWarning, match="1 at 12, 1 at 8"), trainer.profile(length=4) as part:
            list(trainer.train(batches, LR, 4))
        profile = part.profile
        assert (profile.length, len(profile.steps), profile.moves) == (4, 2, ())
        with trainer.profile() as part:
            list(trainer.train(batches[:1] * 3, LR, 3))
        profile = part.profile
        assert (profile.length, len(profile.steps)) == (12, 3)
        assert {move.kind for move in profile.moves} == {"link"}


def test_what_is_refused_there(url: str, artifact: odtc.Artifact, tmp_path: Path) -> None:
    with artifact.trainer(url) as trainer:
        with pytest.raises(DataError, match="rows have 13 places that count; the longest"):
            trainer.step(*ragged(MODULE, (13, 3), 15, 0), lr=LR)
        inputs, labels = ragged(MODULE, (3, 3), 4, 0)
        inputs["input_ids"][0, 0] = WORDS
        with pytest.raises(DataError):
            trainer.step(inputs, labels, lr=LR)
    with (
        serving(tmp_path / "python", server=PYTHON) as python,
        pytest.raises(UnsupportedError, match="native runtime alone, here or in odtc-device"),
    ):
        artifact.trainer(python)


def test_calls_that_do_not_fit_are_refused(url: str, artifact: odtc.Artifact) -> None:
    with artifact.trainer(url) as trainer:
        assert isinstance(trainer._engine, ServedEngine)
        call = trainer._engine._call
        rates, fed = bytearray(8), bytearray(8)

        def take(lengths: list[int]) -> None:
            call("take_steps_at_lengths", 0, rates, bytearray(np.array(lengths)), fed)

        for refused, said in (
            (lambda: call("set_length", 5), "not compiled for a length of 5"),
            (lambda: take([4, -1]), "a step is fed 160 bytes, more or fewer at other lengths, and"),
            (lambda: take([4]), "8 bytes cannot be the lengths of 2 steps"),
        ):
            with pytest.raises((DeviceError, NativeError), match=said):
                refused()
        assert np.isfinite(trainer.step(*batches()[1], lr=LR))
