"""Archives of object files: what is written is read, and what is damaged is said."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.core.artifact.static_library import members_of, static_library

names = st.from_regex(r"[a-z][a-z0-9_.]{0,40}", fullmatch=True)
# A member is filled up to eight bytes, so that its length is no part of what is kept.
contents = st.binary(max_size=10).map(lambda part: part * 8)


@given(st.dictionaries(names, contents, max_size=4), st.booleans())
def test_what_is_written_is_read(members: dict[str, bytes], with_table: bool) -> None:
    symbols = {name: [f"_{name}", "_x"] for name in members} if with_table else None
    data = static_library(members, symbols)
    assert members_of(data) == members
    # Every member begins where Apple's linker wants it.
    assert len(data) % 8 == 0


ARCHIVE = static_library({"one": bytes(16), "two": b"content."}, {"one": ["_f"]})


@given(st.integers(0, len(ARCHIVE) - 1))
def test_a_part_of_one_is_another_or_none(length: int) -> None:
    try:
        found = members_of(ARCHIVE[:length])
    except ValueError:
        return
    assert found.keys() < {"one", "two"}


@given(st.integers(0, len(ARCHIVE) - 1), st.integers(0, 255))
def test_a_byte_that_is_another(place: int, byte: int) -> None:
    data = ARCHIVE[:place] + bytes([byte]) + ARCHIVE[place + 1 :]
    with suppress(ValueError):
        members_of(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it is not an archive"),
        (b"\x7fELF", "it is not an archive"),
        (ARCHIVE[:20], "a member's head is cut short"),
        (ARCHIVE[:-1], "a member ends at"),
        (ARCHIVE.replace(b"`\n", b"  "), "cannot be read"),
        (ARCHIVE.replace(b"#1/", b"#1-"), "cannot be read"),
        (ARCHIVE.replace(b"#1/1", b"#1/x", 1), "is not a number of bytes"),
    ],
)
def test_what_is_none(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        members_of(data)
