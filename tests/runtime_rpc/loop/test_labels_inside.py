"""A loss inside of the model that reads a part of the labels: what says that none counts."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import odtc
from odtc.core.errors import DataError

IGNORED, TOKENS, SHAPE = -100, 7, (4, 6)
Cut = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def following(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    flat = scores[:, :-1].reshape(-1, TOKENS)
    return F.cross_entropy(flat, labels[:, 1:].reshape(-1), ignore_index=IGNORED)


def padded(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As models of transformers have it."""
    shifted = F.pad(labels, (0, 1), value=IGNORED)[..., 1:].contiguous()
    return F.cross_entropy(scores.view(-1, TOKENS), shifted.view(-1), ignore_index=IGNORED)


def turned(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    shifted = labels[:, 1:].t().unsqueeze(0).squeeze(0)
    loss = F.cross_entropy(scores[:, 1:].permute(1, 2, 0), shifted, ignore_index=IGNORED)
    return 0.5 * loss


def masked(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    known = torch.where(labels >= 0, labels, IGNORED)
    return F.cross_entropy(scores.view(-1, TOKENS), known.view(-1), ignore_index=IGNORED)


def strided(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    flat = scores[:, ::2].reshape(-1, TOKENS)
    return F.cross_entropy(flat, labels[:, ::2].reshape(-1), ignore_index=IGNORED)


def helped(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return following(scores, labels) + 0.1 * scores.square().mean()


class Model(torch.nn.Module):
    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(TOKENS, 5), torch.nn.Linear(5, TOKENS)
        self.cut = cut

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.cut(self.layer(self.table(tokens)), labels)


def compiled(folder: Path, cut: Cut) -> odtc.Artifact:
    example = torch.zeros(SHAPE, dtype=torch.int64), torch.zeros(SHAPE, dtype=torch.int64)
    odtc.from_torch(Model(cut), example, folder / "m.onnx")
    path = folder / "m.odtc"
    odtc.compile(folder / "m.onnx", batch=SHAPE[0], loss="in-model").save(path)
    return odtc.load(path)


def taken(trainer: odtc.Trainer, labels: np.ndarray) -> tuple[float, list[str]]:
    """What labels weigh, and what is said of them."""
    tokens = np.arange(24).reshape(SHAPE) % TOKENS
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.step({"tokens": tokens, "labels": labels}, None, lr=0.0)
    return trainer.label_weight, [str(each.message) for each in caught]


def only_at(column: int) -> np.ndarray:
    labels = np.full(SHAPE, IGNORED)
    labels[:, column] = 3
    return labels


@pytest.mark.parametrize("cut", [following, padded, turned])
def test_labels_that_are_not_read_do_not_count(tmp_path: Path, cut: Cut):
    trainer = compiled(tmp_path, cut).trainer(threads=1)
    weight, said = taken(trainer, only_at(0))
    assert weight == 0
    assert said[0].startswith("step 1: no label of its batch counts (each is -100, which the loss")
    assert taken(trainer, only_at(1)) == (1, [])
    wrong = only_at(5)
    # Nobody reads the first place, so that it may be anything; the others are classes.
    wrong[:, 0] = TOKENS
    assert taken(trainer, wrong) == (1, [])
    wrong[2, 3] = TOKENS
    with pytest.raises(DataError, match=r"label 7 is outside \[0, 7\) and is not -100"):
        taken(trainer, wrong)


@pytest.mark.parametrize("cut", [masked, strided])
def test_what_cannot_be_known_is_said(tmp_path: Path, cut: Cut):
    artifact = compiled(tmp_path, cut)
    assert any("nothing shows whether any label of a batch" in n for n in artifact.manifest.notes)
    assert taken(artifact.trainer(threads=1), np.full(SHAPE, IGNORED)) == (1, [])


def test_a_step_that_has_more_to_its_loss_than_labels_counts(tmp_path: Path):
    artifact = compiled(tmp_path, helped)
    assert not artifact.manifest.notes
    assert taken(artifact.trainer(threads=1), only_at(0)) == (1, [])
