"""Rows of tokens of one length, with the token that follows each as its label.

Padded rows have a document each: cut at the end, or filled up. Packed ones have all documents one
after the other, and are full but for the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odtc.runtime_rpc.data.text.documents import Document


@dataclass(frozen=True)
class Rows:
    """Rows that a step takes.

    Attributes:
        ids: numbers of tokens, int64 `[rows, length]`; 0 where there is none.
        following: of the token that follows each, of the same shape.
        learned: which of the following tokens count in a loss; none where labels are left out.
        real: where there is a token.
        cut: tokens of documents that were too long for a row.
        empty: rows that had no token to learn, or none at all, and are left out. Where no row has
            one to learn, those with a token stay: a validation of them has no loss.
    """

    ids: np.ndarray
    following: np.ndarray
    learned: np.ndarray
    real: np.ndarray
    cut: int = 0
    empty: int = 0


def padded(documents: Sequence[Document], length: int) -> Rows:
    """A row for each document."""
    rows = [_row(each.ids[: length + 1], each.learned[: length + 1], length) for each in documents]
    cut = sum(max(len(each.ids) - length - 1, 0) for each in documents)
    return _stacked(rows, length, cut)


def packed(documents: Sequence[Document], length: int) -> Rows:
    """As few rows as hold all documents, whose borders do not matter."""
    ids = np.concatenate([each.ids for each in documents] or [np.zeros(0, np.int64)])
    learned = np.concatenate([each.learned for each in documents] or [np.zeros(0, bool)])
    # The last token of a row is the first of the next one, which predicts what comes after it.
    starts = range(0, max(len(ids) - 1, 0), length)
    rows = [
        _row(ids[start : start + length + 1], learned[start : start + length + 1], length)
        for start in starts
    ]
    return _stacked(rows, length, 0)


def fed(documents: Sequence[Document], length: int, *, packs: bool) -> Rows:
    """Rows of which nothing is learned: each has all tokens that fit, the last one too.

    Args:
        documents: a row each, or one after the other.
        length: of a row.
        packs: whether rows hold several documents.
    """
    parts, cut = [each.ids[:length] for each in documents], 0
    if packs:
        ids = np.concatenate([each.ids for each in documents] or [np.zeros(0, np.int64)])
        parts = [ids[start : start + length] for start in range(0, len(ids), length)]
    else:
        cut = sum(max(len(each.ids) - length, 0) for each in documents)
    kept = [part for part in parts if len(part)]
    ids, real = np.zeros((len(kept), length), np.int64), np.zeros((len(kept), length), bool)
    for row, part in enumerate(kept):
        ids[row, : len(part)], real[row, : len(part)] = part, True
    return Rows(ids, np.zeros_like(ids), np.zeros_like(real), real, cut, len(parts) - len(kept))


def _row(ids: np.ndarray, learned: np.ndarray, length: int) -> tuple[np.ndarray, ...]:
    """One row of tokens, those that follow, which of these are learned, and where there are any."""
    tokens = min(len(ids), length)
    fill = (0, length - tokens)
    # The last token of a short document has none that follows.
    after = (0, length - max(len(ids) - 1, 0))
    return (
        np.pad(ids[:tokens], fill),
        np.pad(ids[1:], after),
        np.pad(learned[1:], after),
        np.pad(np.ones(tokens, bool), fill),
    )


def _stacked(rows: Sequence[tuple[np.ndarray, ...]], length: int, cut: int) -> Rows:
    kept = [row for row in rows if row[2].any()] or [row for row in rows if row[3].any()]
    shape = (len(kept), length)
    dtypes = (np.int64, np.int64, bool, bool)
    columns = zip(*kept, strict=True) if kept else ([], [], [], [])
    arrays = [
        np.asarray(list(column), dtype).reshape(shape)
        for column, dtype in zip(columns, dtypes, strict=True)
    ]
    return Rows(*arrays, cut=cut, empty=len(rows) - len(kept))
