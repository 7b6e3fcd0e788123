"""Rows of tokens: every token is learned once, after the one before it, and nothing is invented."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odtc.runtime_rpc.data.text.documents import Document
from odtc.runtime_rpc.data.text.rows import Rows, fed, packed, padded

LENGTH = 4


MOST, BYTES = 11, 3


def from_bytes(drawn: bytes) -> list[Document]:
    """Documents of tokens that are all different.

    Three bytes say how many a document has, and by a bit for each which are learned.
    """
    parts = [drawn[n : n + BYTES] for n in range(0, len(drawn) - BYTES + 1, BYTES)]
    sizes = [part[0] % (MOST + 1) for part in parts]
    starts = np.cumsum([1, *sizes])
    return [
        Document(
            np.arange(start, start + size),
            int.from_bytes(part[1:], "little") >> np.arange(size) & 1 == 1,
        )
        for start, size, part in zip(starts[:-1], sizes, parts, strict=True)
    ]


# At once: a draw for each token takes three times as long, which is too slow on a busy machine.
DOCUMENTS = st.binary(max_size=5 * BYTES).map(from_bytes)


def learned(rows: Rows) -> list[tuple[int, int]]:
    """Each token that is learned, with the one before it."""
    return [
        (int(before), int(after))
        for before, after in zip(rows.ids[rows.learned], rows.following[rows.learned], strict=True)
    ]


@given(DOCUMENTS)
def test_padded_rows_have_a_document_each(found: list[Document]) -> None:
    rows = padded(found, LENGTH)
    expected = [
        (int(each.ids[n - 1]), int(each.ids[n]))
        for each in found
        for n in range(1, min(len(each.ids), LENGTH + 1))
        if each.learned[n]
    ]
    assert learned(rows) == expected
    assert rows.cut == sum(max(len(each.ids) - LENGTH - 1, 0) for each in found)
    assert len(rows.ids) + rows.empty == len(found)
    assert rows.ids.shape == rows.real.shape == (len(rows.ids), LENGTH)
    assert np.array_equal(rows.real, rows.ids > 0)


@given(DOCUMENTS)
def test_packed_rows_have_all_tokens(found: list[Document]) -> None:
    rows = packed(found, LENGTH)
    count = sum(len(each.ids) for each in found)
    marks = np.concatenate([[False], *[each.learned for each in found]])
    assert learned(rows) == [(n - 1, n) for n in range(2, count + 1) if marks[n]]
    assert rows.cut == 0
    assert (rows.real[:-1] if not rows.empty else rows.real[:0]).all()


@given(DOCUMENTS, st.booleans())
def test_rows_that_are_fed_have_all_tokens_that_fit(found: list[Document], packs: bool) -> None:
    rows = fed(found, LENGTH, packs=packs)
    every = [each.ids if packs else each.ids[:LENGTH] for each in found]
    assert rows.ids[rows.real].tolist() == [int(token) for ids in every for token in ids]
    assert rows.cut == sum(len(each.ids) for each in found) - int(rows.real.sum())
    assert packs or len(rows.ids) + rows.empty == len(found)
    assert not rows.learned.any()


def test_an_example() -> None:
    found = [
        Document(np.arange(1, 4), np.ones(3, bool)),
        Document(np.arange(4, 10), np.ones(6, bool)),
    ]
    rows = padded(found, LENGTH)
    assert rows.ids.tolist() == [[1, 2, 3, 0], [4, 5, 6, 7]]
    assert rows.following.tolist() == [[2, 3, 0, 0], [5, 6, 7, 8]]
    assert rows.learned.tolist() == [[True, True, False, False], [True] * 4]
    assert rows.cut == 1
    rows = packed(found, LENGTH)
    assert rows.ids.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert rows.following.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
