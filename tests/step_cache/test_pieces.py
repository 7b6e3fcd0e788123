"""A file in pieces is the file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odtc.core.disk.pieces import Piece, cut, join


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_it_is_joined_to_what_was_cut(tmp_path: Path, data: st.DataObject) -> None:
    others = {name: data.draw(st.binary(min_size=1, max_size=40)) for name in ("a", "b")}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    parts, known = b"", []
    for _ in range(data.draw(st.integers(0, 6))):
        name = data.draw(st.sampled_from(["", *others]))
        if not name:
            parts += data.draw(st.binary(max_size=10))
            continue
        offset = data.draw(st.integers(0, len(others[name]) - 1))
        size = data.draw(st.integers(1, len(others[name]) - offset))
        known.append((len(parts), Piece(name, offset, size)))
        found = others[name][offset : offset + size]
        # It may lie there, or have changed.
        is_there = data.draw(st.booleans())
        parts += found if is_there else bytes(255 - byte for byte in found)
    whole = tmp_path / "whole"
    whole.write_bytes(parts)
    pieces, content = cut(whole, known, tmp_path)
    assert sum(piece.size for piece in pieces) == len(parts)
    assert len(content) == sum(piece.size for piece in pieces if not piece.file)
    join(tmp_path / "joined", pieces, content, tmp_path)
    assert (tmp_path / "joined").read_bytes() == parts


def test_what_another_file_has_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(range(100)))
    (tmp_path / "whole").write_bytes(b"head" + bytes(range(20, 60)) + b"end")
    pieces, content = cut(tmp_path / "whole", [(4, Piece("other", 20, 40))], tmp_path)
    assert pieces == [Piece("", 0, 4), Piece("other", 20, 40), Piece("", 4, 3)]
    assert content == b"headend"


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="other"):
        join(tmp_path / "joined", [Piece("other", 0, 1)], b"", tmp_path)
