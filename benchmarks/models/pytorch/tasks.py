"""Training tasks of the models: a task gives a module its inputs, its labels and its loss."""

from collections.abc import Callable

import numpy as np
from torch import nn

from benchmarks.models.pytorch.spec import (
    Inputs,
    TorchModel,
    binary,
    classes,
    images,
    joined,
    signals,
    tokens,
    values,
)

Build = Callable[[], nn.Module]

_PER_TOKEN = "cross-entropy{axis=2}"
_REAL = "bce-with-logits"


def image_net(build: Build, size: int = 224, lr: float = 1e-4) -> TorchModel:
    """Large images of 1000 classes."""
    # At 0.01 the loss of an untrained net on four images of noise jumps, and magnifies rounding.
    return TorchModel(build, images(size), classes(1000), lr=lr)


def cifar(build: Build, size: int = 32, lr: float = 0.01) -> TorchModel:
    """Small images of 10 classes."""
    return TorchModel(build, images(size), classes(10), lr=lr)


def digits(build: Build, batch: int = 32) -> TorchModel:
    """Grey images of 10 classes."""
    return TorchModel(build, images(28, 1), classes(10), batch=batch)


def sound(build: Build, samples: int) -> TorchModel:
    """Raw sound of 35 keywords."""
    return TorchModel(build, signals(1, samples, name="sound"), classes(35))


def characters(build: Build, length: int, alphabet: int) -> TorchModel:
    """Texts of characters, of 10 classes."""
    return TorchModel(build, tokens(length, alphabet, "characters"), classes(10), lr=0.1)


def next_character(build: Build, length: int, alphabet: int, batch: int = 16) -> TorchModel:
    """Texts of characters, and the one that comes next."""
    feeds = tokens(length, alphabet, "characters")
    return TorchModel(build, feeds, classes(alphabet), batch=batch, lr=0.1)


def translation(build: Build, source: int, target: int, vocabulary: int) -> TorchModel:
    """Two texts, and a label for each token of the second."""
    feeds = joined(tokens(source, vocabulary, "source"), tokens(target, vocabulary, "target"))
    return TorchModel(build, feeds, classes(vocabulary, target), _PER_TOKEN, lr=0.1)


def sentences(build: Build, length: int, vocabulary: int, lr: float, batch: int = 4) -> TorchModel:
    """Sentences of two classes."""
    return TorchModel(build, _padded(length, vocabulary), classes(2), batch=batch, lr=lr)


def language(build: Build, length: int, vocabulary: int, batch: int = 4) -> TorchModel:
    """Sentences, and a label for each token."""
    feeds, labels = _padded(length, vocabulary), classes(vocabulary, length)
    return TorchModel(build, feeds, labels, _PER_TOKEN, batch=batch, lr=0.1)


def critic(build: Build) -> TorchModel:
    """Images that are real or not."""
    return TorchModel(build, images(64), binary(1), _REAL)


def forger(build: Build, noise: int, lr: float = 0.01) -> TorchModel:
    """Noise, made into images for a critic that stays as it is."""
    feeds = signals(noise, 1, 1, name="noise")
    return TorchModel(build, feeds, binary(1), _REAL, trained="generator.", lr=lr)


def plays(build: Build, actions: int) -> TorchModel:
    """Four frames of a game and an action; the label is the temporal-difference target."""
    feeds = joined(signals(4, 84, 84, name="frames"), tokens(1, actions, "action"))
    return TorchModel(build, feeds, values(1), "mse")


def segmentation(build: Build, size: int, lr: float = 0.1) -> TorchModel:
    """Images, and zero or one for each pixel."""
    return TorchModel(build, images(size), binary(1, size, size), _REAL, lr=lr)


def _padded(length: int, vocabulary: int) -> Inputs:
    """Sentences of different length, padded at the end with token 0, and their mask.

    No word is token 0: PyTorch never trains that row of BERT's embedding (`padding_idx`), which
    ONNX cannot say.
    """

    def draw(rng: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
        lengths = rng.integers(length // 2, length + 1, (batch, 1))
        mask = (np.arange(length) < lengths).astype(np.int64)
        words = rng.integers(1, vocabulary, (batch, length))
        return {"input_ids": words * mask, "attention_mask": mask}

    return draw
