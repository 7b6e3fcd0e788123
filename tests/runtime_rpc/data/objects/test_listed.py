"""Lists with a sample in each item: they are no batches, and are shuffled as Datasets are."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import DataError
from tests.runtime_rpc.loop.models import BATCH, classed, step_of

X, Y = classed()
WORDS, LENGTH = 11, 6
TOKENS = np.random.default_rng(0).integers(1, WORDS, (8, LENGTH))

LISTS: dict[str, Any] = {
    "mappings": [{"input": x, "label": y} for x, y in zip(X, Y, strict=True)],
    "of lists": [{"x": x.tolist(), "labels": int(y)} for x, y in zip(X, Y, strict=True)],
    "pairs": [*zip(X, Y, strict=True)],
    "pairs of tensors": [*zip(torch.tensor(X), torch.tensor(Y), strict=True)],
    "a tuple of pairs of lists": tuple((x.tolist(), int(y)) for x, y in zip(X, Y, strict=True)),
}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    return step_of(tmp_path_factory.mktemp("listed"), "cross-entropy")


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_samples(artifact: odtc.Artifact, name: str):
    trainer, other = artifact.trainer(threads=1), artifact.trainer(threads=1)
    found = trainer.fit(LISTS[name], lr=0.1, validation=LISTS[name], epochs=2)
    expected = other.fit((X, Y), lr=0.1, validation=(X, Y), epochs=2)
    assert found.rows == expected.rows
    np.testing.assert_array_equal(trainer.predict(LISTS[name]), other.predict(X))


def test_lists_of_batches_stay_what_they_are(artifact: odtc.Artifact):
    """One of a single sample, too."""
    batches = [{"input": X[n : n + 1], "label": Y[n : n + 1]} for n in range(2 * BATCH)]
    found = artifact.trainer(threads=1).fit(batches, lr=0.1)
    pairs = [(X[n : n + BATCH], Y[n : n + BATCH]) for n in (0, BATCH)]
    assert found.rows == artifact.trainer(threads=1).fit(pairs, lr=0.1).rows
    np.testing.assert_array_equal(
        artifact.trainer(threads=1).predict(batches),
        artifact.trainer(threads=1).predict(X[: 2 * BATCH]),
    )


class Language(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(WORDS, 5), torch.nn.Linear(5, WORDS)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(input_ids))


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    path = tmp_path_factory.mktemp("language") / "m.onnx"
    torch.manual_seed(0)
    odtc.from_torch(Language(), (torch.zeros(4, LENGTH, dtype=torch.int64),), path)
    return odtc.compile(path, batch=4, loss="cross-entropy{axis=2,ignore-index=-100}")


def run(language: odtc.Artifact, data: Any) -> tuple[list[Any], np.ndarray]:
    trainer = language.trainer(threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trainer.fit(data, lr=0.1).rows, trainer.predict(data)


def test_rows_of_tokens_are_documents(language: odtc.Artifact, tmp_path: Path):
    """As lines of a file are: of any length, labels shifted, and what fills up left out."""
    short = [row[: 3 + n % 4].tolist() for n, row in enumerate(TOKENS)]
    lines = tmp_path / "d.jsonl"
    lines.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in short))
    rows, scores = run(language, str(lines))
    filled = [row + [0] * (LENGTH - len(row)) for row in short]
    masks = [[int(n < len(row)) for n in range(LENGTH)] for row in short]
    ready: list[dict[str, Any]] = [
        {"input_ids": row, "attention_mask": mask} for row, mask in zip(filled, masks, strict=True)
    ]
    forms: list[list[dict[str, Any]]] = [
        [{"input_ids": row} for row in short],
        [{"input_ids": torch.tensor(row), "labels": np.array(row)} for row in short],
        ready,
    ]
    for form in forms:
        found = run(language, form)
        assert found[0] == rows
        np.testing.assert_array_equal(found[1], scores)
    lines.write_text("".join(json.dumps(row) + "\n" for row in ready))
    assert run(language, str(lines))[0] == rows
    with pytest.raises(DataError, match="attention_mask has 1 element, and input_ids has 2"):
        run(language, [{"input_ids": [1, 2], "attention_mask": [1]}])


def test_batches_of_tokens_are_batches(language: odtc.Artifact):
    labels = np.roll(TOKENS, -1, axis=1)
    batches = [{"input_ids": TOKENS[n : n + 4], "labels": labels[n : n + 4]} for n in (0, 4)]
    pairs = [(each["input_ids"], each["labels"]) for each in batches]
    found, expected = run(language, batches), run(language, pairs)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
