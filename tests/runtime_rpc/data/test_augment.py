"""Augmentations: what they make of images, and that a run that goes on sees the same."""

from pathlib import Path

import numpy as np
import pytest

import odtc
from odtc.core.errors import UsageError
from odtc.runtime_rpc.data.augment import Crop, Flip, Jitter, Mixup
from tests.cli.training.digits import BATCH, make_digits

IMAGES = np.random.default_rng(0).random((64, 6, 5, 3)).astype(np.float32)


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_half_of_the_images_are_flipped():
    made = Flip().images(IMAGES, random())
    flipped = [np.array_equal(a, b[:, ::-1]) for a, b in zip(made, IMAGES, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(made, IMAGES, strict=True)]
    assert np.all(np.array(flipped) != same)
    assert 16 < sum(flipped) < 48


def test_a_crop_moves_images():
    made = Crop(2).images(IMAGES, random())
    assert made.shape == IMAGES.shape
    wide = np.pad(IMAGES, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="symmetric")
    cuts = {(y, x): wide[:, y : y + 6, x : x + 5] for y in range(5) for x in range(5)}
    for number, image in enumerate(made):
        assert any(np.array_equal(image, cut[number]) for cut in cuts.values())
    assert not np.array_equal(made, IMAGES)


def test_jitter_changes_brightness_and_contrast_within_its_bounds():
    made = Jitter(0.1).images(IMAGES, random())
    means = made.mean(axis=(1, 2, 3)) / IMAGES.mean(axis=(1, 2, 3))
    assert 0.9 <= means.min() < 0.97
    assert 1.03 < means.max() <= 1.1
    spreads = made.std(axis=(1, 2, 3)) / IMAGES.std(axis=(1, 2, 3)) / means
    assert 0.9 - 1e-5 <= spreads.min() < 0.97
    assert 1.03 < spreads.max() <= 1.1 + 1e-5
    whole = Jitter(0.9).images((IMAGES * 255).astype(np.uint8), random())
    assert whole.dtype == np.uint8
    assert whole.max() == 255


def test_mixup_mixes_images_and_labels_alike():
    shares = np.eye(64, dtype=np.float32)
    x = Mixup(0.5).images(IMAGES, random())
    y = Mixup(0.5).images(shares, random())
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.einsum("ij,jhwc->ihwc", y, IMAGES), x, atol=1e-6)


def test_a_run_that_goes_on_sees_the_same_images(tmp_path: Path):
    digits = make_digits(tmp_path)
    artifact = odtc.load(digits.artifact)
    names = ["flip", "crop{pixels=1}", "jitter"]
    run = {"lr": 0.05, "epochs": 2, "seed": 4, "augment": names, "validation": digits.test}
    whole, plain, path = artifact.trainer(threads=1), artifact.trainer(threads=1), tmp_path / "c"
    history = whole.fit(digits.train, **run)
    other = plain.fit(digits.train, **run | {"augment": []})
    assert history["val_loss"] != other["val_loss"]
    kept = [odtc.Checkpoint(path, every=1), odtc.TimeLimit(1e-9)]
    for _ in range(3):
        artifact.trainer(threads=1).fit(digits.train, **run, callbacks=kept, resume=path)
    trainer = artifact.trainer(threads=1)
    assert trainer.fit(digits.train, **run, resume=path).rows == history.rows
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(value, whole.parameters()[name])
    with pytest.raises(UsageError, match="mixup mixes labels, and label are class numbers"):
        trainer.fit(digits.train, lr=0.1, augment=["mixup"])
    with pytest.raises(UsageError, match="augment needs samples that are asked for by number"):
        trainer.fit([(np.zeros((BATCH, 1, 8, 8)), np.zeros(BATCH, int))], lr=0.1, augment=names)
