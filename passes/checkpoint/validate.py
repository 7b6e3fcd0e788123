"""Checks a plan by playing it, without any of the code that makes plans."""

from odtc.passes.checkpoint.problem import Plan, Recomputation

# A copy of a tensor: which one, and the place in the sequence that made it.
_Copy = tuple[int, int]


def validate(problem: Recomputation, plan: Plan) -> None:
    """Plays a plan to see that what is read is there, and what is alive when.

    Raises:
        ValueError: a task is missing, is in a wrong place, reads what is not there, runs again when
            it would make something else, or the peak or the time is not what the plan says.
    """
    if list(dict.fromkeys(plan.sequence)) != list(range(len(problem.tasks.tasks))):
        raise ValueError("the tasks do not run first in their order")
    last = _last_reads(problem, plan)
    _check_repetitions(problem, plan, last)
    during = [0] * (len(plan.sequence) + 1)
    for (tensor, first), end in last.items():
        for place in range(first, end + 1):
            during[place] += problem.tasks.sizes[tensor]
    peak, seconds = max(during), sum(problem.seconds[number] for number in plan.sequence)
    if peak != plan.peak:
        raise ValueError(f"the peak is {peak}, not {plan.peak}")
    if abs(seconds - plan.seconds) > 1e-9 * max(1.0, seconds):
        raise ValueError(f"it takes {seconds} s, not {plan.seconds}")


def _last_reads(problem: Recomputation, plan: Plan) -> dict[_Copy, int]:
    """The last place that reads each copy, or what made it where nothing does."""
    tasks = problem.tasks.tasks
    newest: dict[int, int] = {}
    last: dict[_Copy, int] = {}
    for place, number in enumerate(plan.sequence):
        for tensor in tasks[number].reads:
            if tensor not in newest:
                raise ValueError(f"task {number} at {place} reads {tensor}, which is not there")
            last[tensor, newest[tensor]] = place
        for tensor in tasks[number].allocates:
            newest[tensor] = place
            last[tensor, place] = place
    for tensor in problem.tasks.kept:
        last[tensor, newest[tensor]] = len(plan.sequence)
    return last


def _check_repetitions(problem: Recomputation, plan: Plan, last: dict[_Copy, int]) -> None:
    """A copy that is read may be made again only before what it depends on has changed."""
    ran = 0
    for place, number in enumerate(plan.sequence):
        if number >= ran:
            ran = number + 1
            continue
        for tensor in problem.tasks.tasks[number].allocates:
            if last[tensor, place] > place and ran > problem.until[tensor]:
                raise ValueError(f"task {number} runs again at {place}, and makes another {tensor}")
