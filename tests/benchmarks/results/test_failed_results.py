"""What goes wrong costs no other result."""

import json

import pytest

from benchmarks.results.place import Place
from tests.benchmarks.results.clone import asked, committed, git, measured, tiny


def test_one_that_fails_costs_no_other_and_is_named(place: Place, capsys) -> None:
    rows = [tiny("fails"), tiny("writes-nothing"), tiny("z")]
    assert measured(place, rows) == 1
    said = capsys.readouterr().err
    log = place.logs / "fails.log"
    assert f"failed: fails: its command ended with 3; what it said is in {log}" in said
    assert "failed: writes-nothing: its command ended well, and wrote nothing" in said
    assert "no such network" in log.read_text()
    assert [path.name for path in place.results.glob("*.json")] == ["z.json"]
    assert measured(place, rows) == 1
    assert asked(place) == ["fails", "writes-nothing", "z", "fails", "writes-nothing"]


def test_what_breaks_a_page_is_put_back_with_the_pages(place: Place, capsys) -> None:
    old = json.dumps({"runs": [{"date": "2026-01-01", "commit": "0"}], "rows": [{"what": "old"}]})
    (place.results / "a.json").write_text(old)
    committed(place.root)
    rows = [tiny("a", "breaks-a-page"), tiny("b", "breaks-a-page"), tiny("c")]
    assert measured(place, rows) == 1
    assert (
        "failed: a: pages cannot be written from what docs/results has" in capsys.readouterr().err
    )
    assert (place.results / "a.json").read_text() == old
    assert not (place.results / "b.json").exists()
    assert (place.root / "README.md").read_text() == "old\nc\n"


def test_figures_of_no_commit_are_refused(place: Place, capsys) -> None:
    assert measured(place, [tiny("changes-sources")]) == 1
    assert "sources changed while it ran" in capsys.readouterr().err
    assert not list(place.results.glob("*.json"))
    with pytest.raises(SystemExit) as ended:
        measured(place, [tiny("a")])
    assert ended.value.code == 2
    assert "1 file is not as in it: tiny.py" in capsys.readouterr().err
    git(place.root, "checkout", "tiny.py")
    (place.root / "README.md").write_text("a page may differ")
    assert measured(place, [tiny("a")]) == 0
    (place.root / "new.py").write_text("")
    with pytest.raises(SystemExit):
        measured(place, [tiny("a")])
    assert "new.py" in capsys.readouterr().err
