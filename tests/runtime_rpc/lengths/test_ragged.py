"""Steps of several lengths: losses and weights are PyTorch's, of rows that nothing fills up."""

from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import DataError
from odtc.runtime_rpc.native.binding import NativeTrainer
from tests.fast import fast_if
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    IGNORED,
    LENGTHS,
    LOSS,
    TARGET,
    WORDS,
    Decoder,
    decoder,
    loss_of,
    ragged,
    save,
)

# Tokens of the rows of each batch, and what these are filled up to before they are fed.
ROWS = (((12, 9), 12), ((3, 4), 12), ((7, 2), 12), ((5, 5), 5), ((1, 2), 2), ((8, 6), 9))
# The length at which each is taken.
TAKEN = (12, 4, 8, 8, 4, 8)
KINDS = {"causal": (True, False), "masked": (False, True), "both": (True, True)}


@pytest.fixture(scope="module", params=fast_if(lambda kind: kind != "both", KINDS))
def made(request, tmp_path_factory) -> tuple[Decoder, odtc.Artifact]:
    is_causal, has_mask = KINDS[request.param]
    module = decoder(is_causal=is_causal, has_mask=has_mask)
    path = save(module, tmp_path_factory.mktemp("lengths") / "decoder.onnx")
    options = {"batch": BATCH, "loss": LOSS, "optimizer": "adamw", "lengths": LENGTHS}
    return module, odtc.compile(path, TARGET, **options)


def test_losses_and_weights_are_those_of_rows_alone(made) -> None:
    original, artifact = made
    module = decoder(is_causal=original.is_causal, has_mask=original.has_mask)
    update = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.01)
    arenas = {n: each.plans[0].arena_bytes for n, each in artifact.manifest.lengths.items()}
    assert [*arenas] == [12, 8, 4]
    assert len({*arenas.values()}) == len(LENGTHS)
    with artifact.trainer() as trainer:
        for seed, (rows, width) in enumerate(ROWS):
            batch = ragged(module, rows, width, seed)
            update.zero_grad()
            expected = loss_of(module, batch, rows)
            expected.backward()
            update.step()
            loss = trainer.step(*batch, lr=0.01)
            assert loss == pytest.approx(expected.item(), rel=1e-6)
            assert trainer.plan.arena_bytes == arenas[TAKEN[seed]]
            assert trainer.length == TAKEN[seed]
        weights = trainer.parameters()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(weights[name], value.numpy(), rtol=0, atol=2e-6)


def test_outputs_of_any_number_of_tokens(made) -> None:
    module, artifact = made
    with artifact.trainer() as trainer:
        for width in (1, 4, 7, 12):
            inputs, _ = ragged(module, (width,) * 3, width, width)
            found = trainer.evaluate(inputs)
            ids = torch.from_numpy(inputs["input_ids"])
            expected = module(ids).detach().numpy()
            assert found.shape == (3, width, WORDS)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_run_goes_on_in_a_step_of_one_length(made, tmp_path: Path) -> None:
    module, artifact = made
    path = save(module, tmp_path / "decoder.onnx")
    alone = odtc.compile(
        path, TARGET, batch=BATCH, loss=LOSS, optimizer="adamw", lengths=LENGTHS[-1]
    )
    batches = [ragged(module, rows, LENGTHS[-1], 7) for rows in ((3, 2), (12, 5), (6, 6))]
    with artifact.trainer() as trainer, alone.trainer() as other:
        trainer.step(*batches[0], lr=0.01)
        trainer.save_checkpoint(tmp_path / "run.ckpt")
        other.load_checkpoint(tmp_path / "run.ckpt")
        for batch in batches[1:]:
            loss = other.step(*batch, lr=0.01)
            assert trainer.step(*batch, lr=0.01) == pytest.approx(loss, rel=1e-6)


def test_samples_are_trained_by_fit(made) -> None:
    module, artifact = made
    inputs, labels = ragged(module, (3, 4, 12, 2, 8, 7, 3, 3), LENGTHS[-1], 1)
    with artifact.trainer() as trainer:
        samples = inputs, labels
        history = trainer.fit(samples, lr=0.01, epochs=3, validation=samples)
    assert history["val_loss"][-1] < history["val_loss"][0]


def test_a_step_that_fails_is_not_the_last_one(made, monkeypatch: pytest.MonkeyPatch) -> None:
    module, artifact = made
    with artifact.trainer() as trainer:
        trainer.step(*ragged(module, (12, 9), 12, 0), lr=0.1)
        before = trainer.length, trainer.plan

        def broken(*_: object, **__: object) -> float:
            raise KeyboardInterrupt

        short = ragged(module, (3, 4), 4, 0)
        with monkeypatch.context() as patched:
            patched.setattr(NativeTrainer, "step_at_any_loss", broken)
            with pytest.raises(KeyboardInterrupt):
                trainer.step(*short, lr=0.1)
        assert (trainer.length, trainer.plan) == before
        trainer.step(*short, lr=0.1)
        assert trainer.length == 4
        assert trainer.plan != before[1]


def test_validation_batches_of_any_length(made) -> None:
    module, artifact = made
    rows = (((3, 3), 3), ((7, 5), 7), ((12, 2, 9), 12))
    batches = [ragged(module, each, width, 2) for each, width in rows]
    with artifact.trainer() as trainer:
        shapes = []
        history = trainer.fit(
            [ragged(module, (2, 2), 4, 0)],
            lr=0.0,
            validation=batches,
            metrics=[lambda outputs, labels: shapes.append(outputs.shape) or labels.shape[1]],
        )
    counts = [sum(each) for each, _ in rows]
    losses = [
        loss_of(module, batch, each).item() for batch, (each, _) in zip(batches, rows, strict=True)
    ]
    expected = np.average(losses, weights=counts)
    assert history["val_loss"] == [pytest.approx(expected, rel=1e-5)]
    assert shapes == [(7, 12, WORDS)]


def test_a_batch_of_samples_of_several_lengths_is_filled_up(made) -> None:
    module, artifact = made
    parts = [ragged(module, each, width, 3) for each, width in (((3, 2, 4), 4), ((9, 5, 7), 9))]
    with artifact.trainer() as trainer:
        assert trainer.fit(parts, lr=0.0)["loss"]
        assert trainer.steps == 3


def test_samples_are_of_any_length(made) -> None:
    module, artifact = made
    with artifact.trainer() as trainer:
        short = ragged(module, (3, 7, 5, 2), 7, 0)
        trainer.fit(short, lr=0.01, validation=ragged(module, (5, 5), 5, 1))
        # Rows of 7 and 5 are a batch, and those of 3 and 2, in any order.
        assert trainer.length in (4, 8)
        trainer.fit(ragged(module, (12, 1), 20, 0), lr=0.01, validation=short)
        with pytest.raises(DataError, match="rows have 20 places that count; the longest") as said:
            trainer.fit(ragged(module, (20, 7), 20, 0), lr=0.01)
        assert said.value.hint == "cut them, or compile for longer ones: --lengths 20"


def test_the_file_that_is_exported_has_any_length(made, tmp_path: Path) -> None:
    module, artifact = made
    import onnxruntime

    with artifact.trainer() as trainer:
        trainer.step(*ragged(module, (3, 2), 4, 0), lr=0.1)
        trainer.export_onnx(tmp_path / "trained.onnx")
        inputs, _ = ragged(module, (9, 9), 9, 3)
        expected = trainer.evaluate(inputs)
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (found,) = session.run(None, inputs)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_batch_without_a_label_is_taken_at_the_shortest(made) -> None:
    module, artifact = made
    inputs, labels = ragged(module, (12, 12), 12, 0)
    labels[:] = IGNORED
    if module.has_mask:
        inputs["attention_mask"][:] = 0
    with artifact.trainer() as trainer:
        trainer.step(inputs, labels, lr=0.0)
        assert trainer.plan.arena_bytes == artifact.manifest.lengths[4].plans[0].arena_bytes
