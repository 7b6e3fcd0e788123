"""The rows of a moment, taken from those of all, are what their definition says."""

from hypothesis import given, settings
from hypothesis import strategies as st

from odtc.passes.checkpoint.problem import Recomputation, Storage
from tests.passes.test_checkpoint import drawn


def rows_of(problem: Recomputation, task: int) -> list[tuple[dict[int, float], float]]:
    """The rows of a moment by their definition, each with what its sum is at least."""
    tasks = problem.tasks
    made = [each for each, size in enumerate(tasks.sizes) if size and tasks.makers[each] < task]
    alive = {each: task + place for place, each in enumerate(made)}

    def there(tensor: int) -> dict[int, float]:
        row = {alive[tensor]: 1.0}
        if problem.until[tensor] > task:
            row[tasks.makers[tensor]] = 1.0
        if problem.storage:
            row[alive[tensor] + len(made)] = 1.0
        return row

    needed = [each for each in made if problem.uses[each] and problem.uses[each][-1] >= task]
    found = [(there(each), 1.0) for each in needed]
    for number in range(task):
        for tensor in sorted(tasks.tasks[number].reads & alive.keys()):
            found.append((there(tensor) | {number: -1.0}, 0.0))
    return found


@settings(max_examples=100, deadline=None)
@given(problem=drawn(most=12), stores=st.booleans())
def test_rows_are_those_of_their_definition(problem: Recomputation, stores: bool) -> None:
    storage = Storage(1.0, 1.0, 1.0) if stores else None
    one = Recomputation(problem.tasks, problem.seconds, problem.until, 0, storage)
    for task in range(len(one.seconds)):
        rows = one.program.rows(task)
        ends = [*rows.starts, len(rows.columns)][1:]
        found = [
            (dict(zip(rows.columns[a:b].tolist(), rows.values[a:b].tolist(), strict=True)), least)
            for a, b, least in zip(rows.starts, ends, rows.least.tolist(), strict=True)
        ]
        assert found == rows_of(one, task)
