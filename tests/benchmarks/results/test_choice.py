"""Which results are measured first, and as many as fit."""

import json

import pytest

from benchmarks.results.choice import ChoiceError, Item, fitting, items_of, named, to_measure
from benchmarks.results.place import Age, Place
from benchmarks.results.table import Kind, Row
from odtc.comparison.measures.measure import machine
from tests.benchmarks.results.clone import tiny


def item(name: str, date: str = "", minutes: float = 1, **more) -> Item:
    age = Age(date, is_current=more.pop("is_current", False), minutes=more.pop("took", None))
    return Item(Row(name, ["python -m x"], minutes, **more), age)


def test_the_readme_comes_first_then_the_oldest(place: Place) -> None:
    for name, date in (("a", "2026-01-03"), ("b", "2026-01-02"), ("readme", "2026-01-04")):
        run = {"date": date, "commit": "1234567"}
        (place.results / f"{name}.json").write_text(json.dumps({"runs": [run], "rows": []}))
    by_hand = Row("c", by_hand="needs a GPU")
    found = items_of([by_hand, tiny("a"), tiny("b"), tiny("d"), tiny("readme")], place)
    assert [each.row.name for each in found] == ["readme", "d", "b", "a", "c"]
    assert not any(each.age.is_current for each in found)
    assert found[2].age.kernels_changed is None
    assert [each.row.name for each in to_measure(found)] == ["readme", "d", "b", "a"]
    assert [each.row.name for each in named(found, ["a", "d"])] == ["d", "a"]
    with pytest.raises(ChoiceError, match="no result 'e'"):
        named(found, ["e"])
    with pytest.raises(ChoiceError, match="c is not measured here: needs a GPU"):
        named(found, ["c"])


def test_as_many_as_fit_are_chosen_by_the_time_that_they_took() -> None:
    found = [item("a", minutes=20), item("b", minutes=30), item("c", minutes=99, took=15)]
    assert [each.row.name for each in fitting(found, 40)] == ["a", "c"]
    assert not fitting(found, 10)
    assert to_measure([item("a", is_current=True)]) == []


def test_another_generation_of_a_cpu_is_another_machine(place: Place) -> None:
    file, here = place.results / "a.json", machine()
    for core, is_current in ((here["core"], True), ("znver1", False), (None, False)):
        there = {**here, "core": core}
        run = {"date": "2026-01-02", "commit": place.commit, "machine": there}
        file.write_text(json.dumps({"runs": [run], "rows": []}))
        assert place.age(tiny("a")).is_current == is_current, core


def test_rows_with_an_older_age_make_a_suite_old(place: Place) -> None:
    (place.results / "s.jsonl").write_text(json.dumps({"comparison": {"machine": machine()}}))
    row = Row("s", ["odtc bench"], kind=Kind.SUITE)
    run = {"file": "s.jsonl", "date": "2026-01-02", "commit": place.commit}
    apart = {"rows": "net", "date": "2026-01-01", "commit": "1234567", "why": "it changed"}
    for more, date in (([], "2026-01-02"), ([apart], "2026-01-01")):
        place.index.write_text(json.dumps({"runs": [{**run, "apart": more}], "rows": []}))
        age = place.age(row)
        assert (age.is_current, age.date) == (not more, date)
