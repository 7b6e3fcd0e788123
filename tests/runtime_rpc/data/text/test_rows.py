"""Rows of tokens: every token is learned once, after the one before it, and nothing is invented."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odtc.runtime_rpc.data.text.documents import Document
from odtc.runtime_rpc.data.text.rows import Rows, fed, packed, padded

LENGTH = 4


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Of tokens that are all different."""
    sizes = draw(st.lists(st.integers(0, 11), max_size=5))
    starts = np.cumsum([1, *sizes])
    return [
        Document(
            np.arange(start, start + size),
            np.asarray(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool),
        )
        for start, size in zip(starts[:-1], sizes, strict=True)
    ]


def learned(rows: Rows) -> list[tuple[int, int]]:
    """Each token that is learned, with the one before it."""
    return [
        (int(before), int(after))
        for before, after in zip(rows.ids[rows.learned], rows.following[rows.learned], strict=True)
    ]


@given(documents())
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


@given(documents())
def test_packed_rows_have_all_tokens(found: list[Document]) -> None:
    rows = packed(found, LENGTH)
    count = sum(len(each.ids) for each in found)
    marks = np.concatenate([[False], *[each.learned for each in found]])
    assert learned(rows) == [(n - 1, n) for n in range(2, count + 1) if marks[n]]
    assert rows.cut == 0
    assert (rows.real[:-1] if not rows.empty else rows.real[:0]).all()


@given(documents(), st.booleans())
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
