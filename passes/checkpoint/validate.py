"""Checks a plan by simulating it, without any of the code that makes plans."""

from odtc.passes.checkpoint.problem import Plan, Recomputation

# A copy of a tensor: which one, and the place in the sequence that made it.
_Copy = tuple[int, int]


def validate(problem: Recomputation, plan: Plan) -> None:
    """Simulates a plan: checks that each tensor is there when it is read, and counts live bytes.

    Raises:
        ValueError: a task is missing, is in a wrong place, reads what is not there, runs again when
            it would make something else, fetches what is not stored, or the peak or the time is
            not what the plan says.
    """
    count = len(problem.tasks.tasks)
    if list(dict.fromkeys(each for each in plan.sequence if each < count)) != list(range(count)):
        raise ValueError("the tasks do not run first in their order")
    copied = _copy_seconds(problem, plan)
    last = _last_reads(problem, plan)
    _check_repetitions(problem, plan, last)
    during = [0] * (len(plan.sequence) + 1)
    for (tensor, first), end in last.items():
        for place in range(first, end + 1):
            during[place] += problem.tasks.sizes[tensor]
    own = (problem.seconds[number] for number in plan.sequence if number < count)
    peak, seconds = max(during), sum(own) + copied
    if peak != plan.peak:
        raise ValueError(f"the peak is {peak}, not {plan.peak}")
    if abs(seconds - plan.seconds) > 1e-9 * max(1.0, seconds):
        raise ValueError(f"it takes {seconds} s, not {plan.seconds}")


def _copy_seconds(problem: Recomputation, plan: Plan) -> float:
    """Returns the seconds of a plan's copies; each must be stored once before it is fetched."""
    count, tensors = len(problem.tasks.tasks), len(problem.tasks.sizes)
    stored: set[int] = set()
    seconds = 0.0
    for place, number in enumerate(plan.sequence):
        if number < count:
            continue
        fetches, tensor = divmod(number - count, tensors)
        if problem.storage is None or fetches > 1:
            raise ValueError(f"there is no task {number}, at {place}")
        if fetches and tensor not in stored:
            raise ValueError(f"{tensor} is fetched at {place}, and not stored")
        if not fetches and tensor in stored:
            raise ValueError(f"{tensor} is stored again at {place}")
        stored.add(tensor)
        rate = problem.storage.fetch if fetches else problem.storage.store
        seconds += problem.storage.call + rate * problem.tasks.sizes[tensor]
    return seconds


def _last_reads(problem: Recomputation, plan: Plan) -> dict[_Copy, int]:
    """The last place that reads each copy, or the one that made it where none does."""
    tasks, count, tensors = problem.tasks.tasks, len(problem.tasks.tasks), len(problem.tasks.sizes)
    newest: dict[int, int] = {}
    last: dict[_Copy, int] = {}
    for place, number in enumerate(plan.sequence):
        if number < count:
            reads, makes = tasks[number].reads, tasks[number].allocates
        else:
            fetches, copied = divmod(number - count, tensors)
            reads, makes = ((), (copied,)) if fetches else ((copied,), ())
        for tensor in reads:
            if tensor not in newest:
                raise ValueError(f"task {number} at {place} reads {tensor}, which is not there")
            last[tensor, newest[tensor]] = place
        for tensor in makes:
            newest[tensor] = place
            last[tensor, place] = place
    for tensor in problem.tasks.kept:
        last[tensor, newest[tensor]] = len(plan.sequence)
    return last


def _check_repetitions(problem: Recomputation, plan: Plan, last: dict[_Copy, int]) -> None:
    """Checks that a copy that is read is made again only before its inputs change."""
    ran = 0
    for place, number in enumerate(plan.sequence):
        if number >= len(problem.tasks.tasks):
            # A fetch is valid at any time, since it copies a stored value.
            continue
        if number >= ran:
            ran = number + 1
            continue
        for tensor in problem.tasks.tasks[number].allocates:
            if last[tensor, place] > place and ran > problem.until[tensor]:
                raise ValueError(f"task {number} runs again at {place}, and makes another {tensor}")
