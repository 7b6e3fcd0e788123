"""Labels as collators for models of transformers give them: the tokens, which no step shifts."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import odtc

ROWS, LENGTH, WORDS, IGNORED = 4, 6, 11, -100
REPEATED = "label is input itself, token by token"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = Path(tmp_path_factory.mktemp("words"), "words.onnx")
    net = torch.nn.Sequential(torch.nn.Embedding(WORDS, 8), torch.nn.Linear(8, WORDS))
    odtc.from_torch(net, torch.zeros(2, LENGTH, dtype=torch.int64), path)
    loss = odtc.CrossEntropy(axis=2, ignore_index=IGNORED)
    return odtc.compile(path, batch=ROWS, loss=loss)


def documents() -> np.ndarray:
    """Tokens of all rows; 0 is what fills them up."""
    tokens = np.random.default_rng(0).integers(1, WORDS, (2 * ROWS, LENGTH))
    tokens[:, -2:] = 0
    return tokens


def collated(rows: list[np.ndarray]) -> dict[str, torch.Tensor]:
    """As DataCollatorForLanguageModeling(mlm=False) of transformers does it."""
    tokens = torch.tensor(np.stack(rows))
    return {"input": tokens, "labels": torch.where(tokens == 0, IGNORED, tokens)}


def test_a_loader_with_the_tokens_as_labels_is_told(artifact: odtc.Artifact):
    rows: Any = [*documents()]  # whose length and elements are all that a loader asks for
    loader = DataLoader(rows, batch_size=ROWS, collate_fn=collated)
    with pytest.warns(UserWarning, match=REPEATED) as told:
        artifact.trainer(threads=1).fit(loader, lr=0.1, epochs=2)
    assert sum(REPEATED in str(each.message) for each in told) == 1


def test_a_step_and_arrays_are_told(artifact: odtc.Artifact):
    tokens = documents()
    with pytest.warns(UserWarning, match=REPEATED):
        artifact.trainer(threads=1).step(tokens[:ROWS], tokens[:ROWS], lr=0.1)
    with pytest.warns(UserWarning, match=REPEATED):
        artifact.trainer(threads=1).fit((tokens, tokens), lr=0.1)


def test_tokens_that_follow_are_not_told(artifact: odtc.Artifact):
    tokens = documents()
    following = np.full_like(tokens, IGNORED)
    following[:, :-1] = tokens[:, 1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artifact.trainer(threads=1).fit((tokens, following), lr=0.1)
        masked = np.where(tokens % 3 == 0, tokens, IGNORED)
        artifact.trainer(threads=1).fit((np.where(masked > 0, 1, tokens), masked), lr=0.1)
        # All of one token, as in a first try.
        zeros = np.zeros((ROWS, LENGTH), np.int64)
        artifact.trainer(threads=1).step(zeros, zeros, lr=0.1)
