"""Small models of tokens whose number is left open, and batches of rows of different lengths."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

WORDS, WIDTH, BATCH = 32, 16, 2
LENGTHS = (4, 8, 12)
IGNORED = -100
LOSS = f"cross-entropy{{axis=2,ignore-index={IGNORED}}}"
TARGET = "host-cpu{threads=1}"

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class Language(nn.Module):
    """A model of tokens.

    Attributes:
        has_mask: whether an input says where tokens are.
    """

    has_mask = False


class Decoder(Language):
    """One block of attention over embedded tokens, and a head.

    Args:
        is_causal: whether a token looks at those before it alone.
        has_mask: whether an input says where tokens are.
    """

    def __init__(self, *, is_causal: bool, has_mask: bool) -> None:
        super().__init__()
        self.is_causal, self.has_mask = is_causal, has_mask
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Embedding(2 * LENGTHS[-1], WIDTH)
        self.query, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        # A bias of keys changes no softmax: its gradient would be rounding errors.
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.embedding(input_ids) + self.position(places)
        scores = self.query(x) @ self.key(x).transpose(1, 2) * WIDTH**-0.5
        if self.is_causal:
            scores = scores.masked_fill(places[:, None] < places[None, :], -1e9)
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, :] == 0, -1e9)
        x = self.norm(x + self.out(scores.softmax(-1) @ self.value(x)))
        return self.head(x)


def decoder(*, is_causal: bool, has_mask: bool) -> Decoder:
    """A model with the same weights each time."""
    torch.manual_seed(0)
    return Decoder(is_causal=is_causal, has_mask=has_mask)


class Words(Language):
    """Scores of each token for itself, by its place: drivers compile few kernels for it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTHS[-1], WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        return self.head(self.embedding(input_ids) + self.position(places))


def words() -> Words:
    """The model with the same weights each time."""
    torch.manual_seed(0)
    return Words()


def save(module: Language, path: Path) -> Path:
    """Writes its file, with numbers of samples and of tokens left open.

    Of the mask that has another name, as in files of Optimum.
    """
    names = ["input_ids", *(["attention_mask"] if module.has_mask else [])]
    torch.onnx.export(
        module,
        tuple(torch.ones(2, 5, dtype=torch.int64) for _ in names),
        path,
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=names,
        output_names=["logits"],
        dynamic_axes={
            name: {0: "batch", 1: "total" if name == "attention_mask" else "length"}
            for name in (*names, "logits")
        },
    )
    return path


def ragged(module: Language, rows: tuple[int, ...], width: int, seed: int) -> Batch:
    """A batch of rows of so many tokens, filled up to a width."""
    rng = np.random.default_rng(seed)
    shape, there = (len(rows), width), np.arange(width) < np.array(rows)[:, None]
    ids = np.where(there, rng.integers(0, WORDS, shape), 0)
    labels = np.where(there, rng.integers(0, WORDS, shape), IGNORED)
    mask = {"attention_mask": there.astype(np.int64)} if module.has_mask else {}
    return {"input_ids": ids, **mask}, labels


def loss_of(module: Language, batch: Batch, rows: tuple[int, ...]) -> torch.Tensor:
    """The mean loss of all tokens, of each row alone: nothing is filled up."""
    inputs, labels = batch
    losses = [
        F.cross_entropy(
            module(torch.from_numpy(inputs["input_ids"][n : n + 1, :size]))[0],
            torch.from_numpy(labels[n, :size]),
            reduction="sum",
        )
        for n, size in enumerate(rows)
    ]
    return torch.stack(losses).sum() / sum(rows)
