"""The benchmark of language models: parity over every base, turns, and going on in a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.language_models import __main__ as command_line
from benchmarks.language_models.compare import Row
from benchmarks.language_models.configs import UNIT
from benchmarks.language_models.prepare import BASES, COMPILED, budget_of
from benchmarks.language_models.report import said_of
from benchmarks.language_models.sides import Side, SideError, Turn
from benchmarks.models.stored import BLOCK, FORMS, whole

# A step of so small a model does not fit a part of its arena.
_FIT = [name for name, base in BASES.items() if not base.part_of]
_TINY = (
    *("--models", "tiny", "--tokens", "32", "--turns", "1", "--steps", "1"),
    *("--bases", ",".join(_FIT)),
)


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["language_models", *words])
    return command_line.main()


@pytest.mark.slow
def test_every_base_has_pytorchs_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    assert _run(monkeypatch, *_TINY, "--json", str(file)) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["side"] for row in rows] == ["PyTorch", "PyTorch, checkpointed", *_FIT]
    expected = rows[0]["turns"][0]["losses"]
    for row in rows[2:]:
        # The same values are stored in each way.
        assert row["parity"]["losses"][:2] == pytest.approx(expected, rel=1e-5)
        assert row["compiled"]["arena"] < row["turns"][0]["peak"]
    before = file.read_text()
    capsys.readouterr()
    assert _run(monkeypatch, *_TINY, "--json", str(file), "--resume") == 0
    assert "export" not in capsys.readouterr().out
    assert file.read_text() == before
    with pytest.raises(SystemExit, match="of another run: terms differ"):
        _run(monkeypatch, *_TINY, "--json", str(file), "--resume", "--threads", "2")


def test_a_part_of_the_arena_is_the_budget(tmp_path: Path) -> None:
    (tmp_path / "int4").mkdir()
    (tmp_path / "int4" / COMPILED).write_text('{"arena": 1001}')
    budgets = {name: budget_of(name, tmp_path) for name in BASES}
    assert {name: each for name, each in budgets.items() if each is not None} == {
        "int4 in half": 500,
        "int4 in a tenth": 100,
        "int4 by 128 in a twelfth": 83,
    }


def test_a_budget_without_the_base_that_it_is_a_part_of_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--bases", "int8,int4 in half")
    assert "'int4 in half' is a part of the arena over 'int4': name" in capsys.readouterr().err


def test_codes_of_8_bits_are_not_those_of_4() -> None:
    """They hold the same values; such as fit 4 bits would be kept in 4, and measured so."""
    codes = np.arange(-7, 7).repeat(BLOCK).reshape(2, -1)
    scale = np.full((2, 7), UNIT, np.float32)
    (eight, its), attributes = FORMS[BASES["int8"].form](codes, scale)
    assert eight.dtype == np.int8
    assert np.abs(eight).max() > 8
    assert attributes["block_size"] == BLOCK
    np.testing.assert_array_equal(whole(eight, its), whole(codes, scale))


def test_shares_are_of_pytorch_without_checkpointing() -> None:
    peer = Turn([9.0, 2.0], [1.0, 1.0], 900, 50, 100)
    native, parity = Turn([9.0, 1.0], [1.0, 1.0], 150, 80, 0), Turn([9.0], [1.0], 300, 20, 100)
    rows = [
        Row("m", 128, "PyTorch", [peer]),
        Row("m", 128, "int4", [native], parity),
        Row("m", 128, "int8", skipped="its losses differ"),
    ]
    assert list(said_of(rows)) == [
        "m, 128 tokens, int4: 0.50 of PyTorch's time (goal 0.7), "
        "0.25 of its memory (goal 0.25 over int4)",
        "m, 128 tokens, int8: its losses differ",
    ]


def test_a_process_that_fails_says_by_what_error() -> None:
    program = "import sys; print(1, flush=True); raise ValueError('no ' + sys.stdin.read(1))"
    side = Side("x", ["python3", "-c", program], imports=True)
    with pytest.raises(SideError, match=r"^ValueError: no \.$"):
        side.take(2, 1)
