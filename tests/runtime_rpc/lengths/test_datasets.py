"""Datasets whose samples differ in length: batches of one length each, that go on to the bit."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odtc
from odtc.core.errors import DataError
from odtc.runtime_rpc.data.objects.indexed import indexed
from odtc.runtime_rpc.data.objects.ragged import Ragged, ragged
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    IGNORED,
    LENGTHS,
    LOSS,
    TARGET,
    WORDS,
    decoder,
    save,
)

LR = 0.05


class Tokens:
    """A dataset of rows of tokens of as many places as they have."""

    def __init__(self, lengths: tuple[int, ...], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rows = [rng.integers(0, WORDS, (2, length)) for length in lengths]
        self.asked = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.asked += 1
        ids, labels = self.rows[number]
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "label": labels}


def token_losses(trainer: odtc.Trainer, item: dict[str, np.ndarray]) -> list[float]:
    """Of each token of a row, which is evaluated alone."""
    fed = {name: item[name][None] for name in ("input_ids", "attention_mask")}
    logits = trainer.evaluate(fed)[0].astype(float)
    scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return (-scores[np.arange(len(scores)), item["label"]]).tolist()


SIZES = (3, 12, 4, 7, 8, 2, 11, 5, 9, 1, 4, 6, 10)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = save(decoder(is_causal=True, has_mask=True), tmp_path_factory.mktemp("m") / "m.onnx")
    return odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS, optimizer="adam")


def source(artifact: odtc.Artifact, sizes: tuple[int, ...]) -> Ragged:
    manifest = artifact.manifest
    found = ragged(indexed(Tokens(sizes), manifest), manifest, lambda: True, is_trained=True)
    assert isinstance(found, Ragged)
    return found


@pytest.mark.parametrize("sizes", [SIZES, SIZES[:12], SIZES[:5], (4, 12)])
def test_batches_are_of_one_length_but_for_what_is_left(
    sizes: tuple[int, ...], artifact: odtc.Artifact
) -> None:
    of, count = source(artifact, sizes), len(sizes)
    at = np.array(of.lengths)
    assert of.lengths == tuple(min(n for n in LENGTHS if n >= size) for size in sizes)
    # Epochs follow each other as one stream, in which a batch may hold two of them.
    orders = [of.order(3, epoch) for epoch in range(4)]
    assert all(sorted(each) == [*range(count)] for each in orders)
    assert any((orders[0] != each).any() for each in orders[1:]) or count < 3
    assert all((of.order(3, n) == each).all() for n, each in enumerate(orders))
    stream = np.concatenate(orders)
    batches = stream[: len(stream) // BATCH * BATCH].reshape(-1, BATCH)
    mixed = sum(len({*at[each]}) > 1 for each in batches)
    left = sum(n % BATCH for n in Counter(of.lengths).values())
    assert mixed <= 4 * (left // BATCH + 2)
    assert mixed < len(batches) / 2 or count < 6


def test_rows_of_a_batch_are_filled_up(artifact: odtc.Artifact) -> None:
    x, y = source(artifact, SIZES).take(np.array([0, 3]))
    assert x["input_ids"].shape == y["label"].shape == (2, 7)
    assert x["attention_mask"].tolist() == [[1] * 3 + [0] * 4, [1] * 7]
    assert (y["label"][0, 3:] == IGNORED).all()
    assert (y["label"][1] != IGNORED).all()


def test_a_run_is_that_of_rows_alone_and_goes_on_to_the_bit(
    artifact: odtc.Artifact, tmp_path: Path
) -> None:
    data, other = Tokens(SIZES), Tokens((5, 3, 12), 1)
    options: dict[str, Any] = {"lr": LR, "seed": 4, "validation": other}
    with artifact.trainer(threads=1) as whole:
        with pytest.warns(UserWarning, match="samples by length: 5 at 4, 4 at 8, 4 at 12; batches"):
            rows = whole.fit(data, steps=15, **options)
        expected = whole.parameters()
        # The loss of a validation is that of all rows, each alone.
        losses = [loss for number in range(3) for loss in token_losses(whole, other[number])]
        assert rows["val_loss"][-1] == pytest.approx(np.mean(losses), rel=1e-5)
    keep = odtc.Checkpoint(tmp_path / "c")
    with artifact.trainer(threads=1) as first:
        first.fit(data, steps=8, callbacks=[keep], **options)
    with artifact.trainer(threads=1) as second:
        again = second.fit(data, steps=15, resume=str(tmp_path / "c"), **options)
        found = second.parameters()
    assert again["loss"][-1] == rows["loss"][-1]
    assert again["val_loss"][-1] == rows["val_loss"][-1]
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_a_list_of_samples_is_no_list_of_batches(tmp_path: Path) -> None:
    path = save(decoder(is_causal=True, has_mask=False), tmp_path / "m.onnx")
    artifact = odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS)
    of = Tokens(SIZES)
    # Of as many places as a batch has samples, too.
    samples = [tuple(row) for row in of.rows]
    weights = []
    for data in (samples, Pairs(samples)):
        with artifact.trainer(threads=1) as trainer:
            with pytest.warns(UserWarning, match="samples by length: 5 at 4, 4 at 8, 4 at 12"):
                trainer.fit(data, lr=LR, seed=1)
            weights.append(trainer.parameters())
            with pytest.warns(UserWarning, match="rows have 1 to 12 places"):
                found = trainer.predict(data)
            assert found.shape == (len(SIZES), 12, WORDS)
    for name, value in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], value)


class Pairs:
    """A dataset of pairs."""

    def __init__(self, samples: list[tuple[Any, Any]]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        return self.samples[number]


def test_samples_of_several_lengths_are_predicted(artifact: odtc.Artifact) -> None:
    of = Tokens(SIZES)
    with artifact.trainer(threads=1) as trainer:
        with pytest.warns(UserWarning, match="rows have 1 to 12 places, and are filled up to 12"):
            found = trainer.predict(of)
        assert found.shape == (len(SIZES), 12, WORDS)
        for number, size in enumerate(SIZES):
            item = of[number]
            fed = {name: item[name][None] for name in ("input_ids", "attention_mask")}
            np.testing.assert_allclose(
                found[number, :size], trainer.evaluate(fed)[0], rtol=0, atol=1e-5
            )
        assert trainer.predict(Tokens((5, 5, 5))).shape == (3, 5, WORDS)


def test_a_dataset_of_one_length_stays_as_it_is(artifact: odtc.Artifact) -> None:
    of = source(artifact, (6, 7, 8, 5))
    manifest = artifact.manifest
    plain = indexed(Tokens((6, 7, 8, 5)), manifest)
    assert of.lengths == ()
    assert not of.notes
    np.testing.assert_array_equal(of.order(1, 2), plain.order(1, 2))


def test_what_cannot_be_filled_up_is_refused_before_the_first_step(tmp_path: Path) -> None:
    path = save(decoder(is_causal=False, has_mask=False), tmp_path / "m.onnx")
    artifact = odtc.compile(path, TARGET, batch=BATCH, loss=LOSS, lengths=LENGTHS)

    class Unmasked(Tokens):
        def __getitem__(self, number: int) -> dict[str, Any]:
            return {k: v for k, v in super().__getitem__(number).items() if "mask" not in k}

    with artifact.trainer(threads=1) as trainer:
        with pytest.raises(DataError, match="rows of 4, 8 places, and cannot be filled up"):
            trainer.fit(Unmasked((4, 8, 4)), lr=LR)
        with pytest.raises(DataError, match="rows have 5 places, and cannot be filled up or cut"):
            trainer.fit(Unmasked((5, 4)), lr=LR)
        trainer.fit(Unmasked((4, 4, 4)), lr=LR)
        with pytest.raises(DataError, match="rows of 4, 8 places, and cannot be filled up"):
            trainer.predict(Unmasked((4, 8, 4)))
    with (
        pytest.raises(DataError, match="rows have 13 places that count; the longest"),
        odtc.compile(
            save(decoder(is_causal=True, has_mask=True), path),
            TARGET,
            batch=BATCH,
            loss=LOSS,
            lengths=LENGTHS,
        ).trainer(threads=1) as trainer,
    ):
        trainer.fit(Tokens((4, 13)), lr=LR)


def test_rows_of_arrays_are_put_into_batches_by_length(artifact: odtc.Artifact) -> None:
    """As a dataset of the same rows is, to the bit."""
    of = Tokens(SIZES)
    rows = [*(of[number] for number in range(len(of)))]
    filled = {
        name: np.stack([np.pad(r[name], (0, 12 - len(r[name])), constant_values=v) for r in rows])
        for name, v in (("input_ids", 0), ("attention_mask", 0), ("label", IGNORED))
    }
    lengths, weights = [], []
    for data in (of, filled):
        taken = Taken()
        with artifact.trainer(threads=1) as trainer:
            with pytest.warns(UserWarning, match="samples by length: 5 at 4, 4 at 8, 4 at 12"):
                trainer.fit(data, lr=LR, seed=3, epochs=2, callbacks=[taken])
            lengths.append(taken.lengths)
            weights.append(trainer.parameters())
    assert lengths[0] == lengths[1]
    assert lengths[0].count(12) < 9
    for name, value in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], value)


class Taken(odtc.Callback):
    """Notes at which length each step was taken."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def on_train_batch_end(self, run: Any, step: int, loss: float) -> None:
        self.lengths.append(run.trainer.length)
