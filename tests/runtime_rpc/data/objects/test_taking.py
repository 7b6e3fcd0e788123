"""Datasets and loaders are taken as arrays are: with axes of size 1, and what is told of them."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import odtc
from odtc.core.errors import DataError

SIZE, SAMPLES, BATCH = 8, 20, 4
BYTES = np.random.default_rng(0).integers(0, 256, (SAMPLES, SIZE, SIZE), np.uint8)
CLASSES = np.arange(SAMPLES) % 2
TENSORS = TensorDataset(torch.tensor(BYTES) / 255, torch.tensor(CLASSES))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    torch.manual_seed(0)
    path = Path(tmp_path_factory.mktemp("grey"), "grey.onnx")
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    net(torch.zeros(1, 1, SIZE, SIZE))
    odtc.from_torch(net, torch.zeros(2, 1, SIZE, SIZE), path)
    return odtc.compile(path, batch=BATCH)


def fitted(artifact: odtc.Artifact, data: Any, **options: Any) -> tuple[list[float], list[str]]:
    """Losses of a run, and what was told of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = artifact.trainer(threads=1).fit(data, lr=0.01, epochs=2, **options)
    return found["loss"], [str(each.message) for each in told]


def hugging_face() -> datasets.Dataset:
    """Grey images with their classes, as `load_dataset("mnist")` gives them."""
    columns = {"image": [Image.fromarray(each) for each in BYTES], "label": CLASSES}
    features = datasets.Features(image=datasets.Image(), label=datasets.Value("int64"))
    return datasets.Dataset.from_dict(columns, features=features)


GIVEN: dict[str, Callable[[], Any]] = {
    "of PyTorch": lambda: TENSORS,
    "a loader": lambda: DataLoader(TENSORS, batch_size=3),
    "of Hugging Face": hugging_face,
}


@pytest.mark.parametrize("name", GIVEN)
def test_an_axis_of_size_1_is_added_and_told_once(artifact: odtc.Artifact, name: str):
    losses, told = fitted(artifact, GIVEN[name]())
    shape = f"input has shape [samples, {SIZE}, {SIZE}], and is taken as [samples, 1, {SIZE}, "
    assert sum(shape in each for each in told) == 1
    assert len(losses) == 2


def test_they_train_as_arrays_do(artifact: odtc.Artifact):
    arrays, _ = fitted(artifact, (BYTES / np.float32(255), CLASSES))
    assert fitted(artifact, TENSORS)[0] == arrays
    augmented, _ = fitted(artifact, (BYTES / np.float32(255), CLASSES), augment=["crop{pixels=2}"])
    assert fitted(artifact, TENSORS, augment=["crop{pixels=2}"])[0] == augmented


@pytest.mark.parametrize("size", [(6, 9), (SIZE, SIZE, 3)], ids=["size", "colours"])
def test_images_of_another_size_are_told_how_they_fit(artifact: odtc.Artifact, size: tuple):
    images = [Image.fromarray(np.zeros(size, np.uint8))] * SAMPLES
    features = datasets.Features(image=datasets.Image(), label=datasets.Value("int64"))
    columns = {"image": images, "label": CLASSES}
    data = datasets.Dataset.from_dict(columns, features=features)
    with pytest.raises(DataError, match="the step takes") as error:
        fitted(artifact, data)
    hint = error.value.hint or ""
    assert "image.convert('L').resize((8, 8))" in hint

    def fitting(rows: dict[str, list]) -> dict[str, list]:
        made = [np.asarray(each.convert("L").resize((8, 8))) / 255 for each in rows["image"]]
        return {**rows, "image": made}

    assert len(fitted(artifact, data.with_transform(fitting))[0]) == 2


@pytest.mark.parametrize("name", ["of Hugging Face", "a loader"])
def test_bytes_for_floats_are_told_once(artifact: odtc.Artifact, name: str):
    of_bytes = TensorDataset(torch.tensor(BYTES)[:, None], torch.tensor(CLASSES))
    data = DataLoader(of_bytes, batch_size=5) if name == "a loader" else hugging_face()
    for options in ({}, {"validation": data}):
        told = fitted(artifact, (BYTES[:, None] / 255.0, CLASSES) if options else data, **options)
        assert sum("input holds bytes, 0 to 255, which are fed" in each for each in told[1]) == 1


def test_whole_floats_and_truth_values_are_classes(artifact: odtc.Artifact):
    x = torch.tensor(BYTES)[:, None] / 255
    expected, _ = fitted(artifact, TensorDataset(x, torch.tensor(CLASSES)))
    for labels in (torch.tensor(CLASSES).float(), torch.tensor(CLASSES).bool()[:, None]):
        losses, told = fitted(artifact, TensorDataset(x, labels))
        assert losses == expected
        assert [each for each in told if "label" in each]
