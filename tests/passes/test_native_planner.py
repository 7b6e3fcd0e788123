"""The inner loops in C++ find what Python finds; where they cannot be had, Python does."""

import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.packing.inputs import CAPACITY, CHALLENGING, INPUTS
from benchmarks.recomputation.problems import layered
from odtc.passes.checkpoint.frontier import _AHEAD, _OTHERS, Guided, frontier
from odtc.passes.checkpoint.plans import eviction
from odtc.passes.checkpoint.plans.eviction import evicting
from odtc.passes.checkpoint.problem import Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.repair import repaired
from odtc.passes.checkpoint.retention import retained
from odtc.passes.checkpoint.stage_program import StageProgram
from odtc.passes.memory.packing import search
from odtc.passes.memory.packing.blocks import blocks_of
from odtc.passes.memory.packing.budget import Budget, Limit
from odtc.passes.memory.packing.families import families_of
from odtc.passes.memory.packing.problem import PackingProblem
from odtc.passes.memory.packing.search import searched
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.validate import validate
from odtc.passes.native import library as building
from odtc.passes.native import planner
from odtc.passes.native.library import library
from tests.passes.memory.packing import problems
from tests.passes.test_checkpoint import chain, drawn
from tests.passes.test_offload_plans import with_storage


@pytest.fixture(scope="module", autouse=True)
def _there_is_a_compiler() -> None:
    """Where there is none, nothing here would be looked at."""
    assert library() is not None, "no C++ compiler: apt-get install g++"


def in_python(problem: Recomputation) -> Recomputation:
    """The same problem, of which Python does the inner loops."""
    made = replace(problem)
    made.__dict__["native"] = None
    return made


def walked(problem: Recomputation, limit: int, way: Guided) -> list[int] | None:
    first = plan_of(problem, range(len(problem.seconds)))
    stage = StageProgram(problem, highest_of(problem, first))
    choice = stage.cheapest(int(way.share * limit)) if way.share else None
    return evicting(problem, limit, way.score, choice, way.slack)


def assert_alike(problem: Recomputation, limit: int, way: Guided) -> None:
    given = in_python(problem)
    assert problem.native is not None
    found = walked(problem, limit, way)
    assert found == walked(given, limit, way)
    if found is not None:
        assert plan_of(problem, found) == plan_of(given, found)
        for most in (limit, 2 * limit):
            assert retained(problem, found, most) == retained(given, found, most)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(drawn(14), with_storage(14)), st.integers(1, 60), st.sampled_from([*_AHEAD, *_OTHERS])
)
def test_walks_are_those_of_python(problem: Recomputation, limit: int, way: Guided) -> None:
    assert_alike(problem, limit, way)


@pytest.mark.parametrize("way", [*_AHEAD, *_OTHERS], ids=str)
def test_walks_through_large_steps_are_those_of_python(way: Guided) -> None:
    for problem in (layered(120), chain(60)):
        peak = plan_of(problem, range(len(problem.seconds))).peak
        for part in (9, 6):
            assert_alike(problem, peak * part // 10, way)


@settings(max_examples=100, deadline=None)
@given(drawn(14), st.integers(1, 60))
def test_repairs_are_those_of_python(problem: Recomputation, limit: int) -> None:
    first = range(len(problem.seconds))
    assert repaired(problem, limit, first) == repaired(in_python(problem), limit, first)


@pytest.mark.parametrize("part", [0.9, 0.7, 0.5])
def test_repairs_of_large_steps_are_those_of_python(part: float) -> None:
    for problem in (layered(120), chain(60)):
        first = plan_of(problem, range(len(problem.seconds)))
        limit = int(part * first.peak)
        found = repaired(problem, limit, first.sequence)
        assert found == repaired(in_python(problem), limit, first.sequence)


def test_frontiers_are_those_of_python() -> None:
    problem = chain(12)
    assert frontier(problem) == frontier.__wrapped__(in_python(problem))


def test_no_task_of_a_walk_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks in Python, a second for 400 attempts, are not begun."""
    begun: list[Recomputation] = []
    walk_state = eviction.WalkState

    def counted(problem: Recomputation, *others: Any) -> eviction.WalkState:
        begun.append(problem)
        return walk_state(problem, *others)

    monkeypatch.setattr(eviction, "WalkState", counted)
    plans = frontier(replace(chain(16), turn=16))
    assert len(plans) > 5
    assert not begun


def test_an_error_where_a_walk_asks_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no solver")

    problem = layered(60)
    peak = plan_of(problem, range(60)).peak
    monkeypatch.setattr(eviction, "worth_keeping", fails)
    with pytest.raises(RuntimeError, match="no solver"):
        evicting(problem, peak * 8 // 10, eviction.Score(), None, 0.1)


@settings(max_examples=100, deadline=None)
@given(problems(most=14), st.data())
def test_searches_are_those_of_python(problem: PackingProblem, data: st.DataObject) -> None:
    families = [family for family in families_of(problem.buffers) if family.size]
    if not families:
        return
    whole, _ = blocks_of(families)
    for rows in whole.parts():
        blocks = whole.take(rows)
        bound = int(blocks.load().max())
        height = bound + data.draw(st.integers(0, 3))
        rank = np.array(data.draw(st.permutations(range(len(blocks)))), float)
        nodes, steps = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 20_000))
        outcomes = []
        for functions in (None, library()):
            weight, budget = np.zeros(blocks.sections), Budget(Limit(steps))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(search, "library", lambda functions=functions: functions)
                found = searched(
                    blocks, rank, height, weight, learn=True, nodes=nodes, budget=budget
                )
            offsets = None if found.offsets is None else found.offsets.tolist()
            outcomes.append((offsets, found.lower_bound, weight.tolist(), budget.steps))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("name", CHALLENGING)
def test_challenging_inputs_are_within_their_capacity_soon(name: str) -> None:
    """In less than a second: three million steps are a few tenths of one here."""
    problem = PackingProblem(INPUTS[name](), CAPACITY)
    solution = solve(problem, Limit(3_500_000))
    validate(problem, solution)
    assert solution.height <= CAPACITY


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], bool]]:
    """Whether there is a library, with an empty cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    # It is compiled to be there, not to be quick.
    monkeypatch.setattr(building, "_FLAGS", (*building._FLAGS, "-O0"))
    library.cache_clear()
    yield lambda: library() is not None
    library.cache_clear()


def test_without_a_compiler_python_does_it(anew, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not anew()
    problem = chain(6)
    assert planner.planner_of(problem.tables) is None
    assert frontier.__wrapped__(problem) == frontier.__wrapped__(in_python(chain(6)))


def test_a_compiler_that_fails_is_none(anew, monkeypatch, tmp_path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    assert not anew()
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_an_interrupt_where_python_is_asked_is_raised() -> None:
    """Ctrl-C comes to a function of Python that one of C has called, which would lose it."""
    problem = chain(10)
    assert problem.native is not None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    rules = planner.Rules(1.0, 1.0, 1.0, *eviction_constants())
    with pytest.raises(KeyboardInterrupt):
        problem.native.evicting(problem.largest, rules, None, 5, interrupted)


def eviction_constants() -> tuple[float, ...]:
    return eviction._LEAST, eviction._MOST, eviction._FOLLOWED, eviction._FURTHER


def test_without_a_cache_it_is_compiled_for_this_process(anew, tmp_path) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert anew()


def test_a_library_that_is_damaged_is_compiled_again(anew, tmp_path) -> None:
    assert anew()
    (kept,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    content = kept.read_bytes()
    # What the loader would map, and end the process for.
    kept.write_bytes(content[: len(content) // 2])
    library.cache_clear()
    assert anew()
    assert kept.read_bytes() == content


def test_it_is_compiled_once(anew, monkeypatch) -> None:
    assert anew()

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(building.subprocess, "run", refused)
    library.cache_clear()
    assert anew()
