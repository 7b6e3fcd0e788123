"""The benchmark of compiles: its three runs, and the times of their stages."""

from pathlib import Path

import pytest

from benchmarks.compile_time.__main__ import RUNS, CompileRow, compiles


@pytest.mark.slow
def test_stages_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(RUNS) == ["cold", "again", "optimizer changed"]
    monkeypatch.delitem(RUNS, "again")
    rows = compiles("digits", 4, tmp_path, with_tvm=False)
    assert [row.run for row in rows] == list(RUNS)
    for row in rows:
        assert row.wall.keys() == row.processor.keys()
        assert {"start", "read the model", "compile the kernels", "link", "write"} <= {*row.wall}
        assert row.peak_bytes > 0
    cold, changed = (row.processor["compile the kernels"] for row in rows)
    assert changed < cold


def test_what_is_compiled_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RUNS, "optimizer changed")
    _, again = compiles("digits", 4, tmp_path, with_tvm=False)
    assert {*again.wall} == {"start", "write"}


def test_the_table_has_seconds_memory_and_shares() -> None:
    wall, processor = {"start": 1.0, "link": 3.0}, {"start": 2.0, "link": 3.0}
    row = CompileRow("m", "cold", wall, processor, 9_000_000)
    assert row.cells() == ("m", "cold", "4.0", "5.0", "9", "start 25%, link 75%")
    assert CompileRow("m", "TVM: no", {}, {}, 0).cells() == ("m", "TVM: no", "", "", "", "")
