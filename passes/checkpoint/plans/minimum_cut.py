"""Plans that keep the fewest bytes at the turn of a step, if only cheap tasks run again.

That is how PyTorch's `torch.compile` decides what the backward pass reads: by a minimum cut, in
which products and convolutions never run again. Here it is tasks above some time for each byte.
"""

from collections.abc import Iterator

from odtc.passes.checkpoint.plans.keeping import keeping
from odtc.passes.checkpoint.problem import Recomputation
from odtc.passes.checkpoint.stage_program import StageProgram

# Cheap tasks: up to these shares of all, by their time for each byte.
_PARTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)


def cutting(problem: Recomputation) -> Iterator[list[int]]:
    """Sequences of tasks, the more run again the later."""
    if not 0 < problem.turn < len(problem.seconds):
        return
    stage = StageProgram(problem, problem.turn)
    times = [problem.seconds[n] / max(1, problem.grown[n]) for n in range(problem.turn)]
    order = sorted(range(problem.turn), key=times.__getitem__)
    for part in _PARTS:
        choice = stage.smallest(frozenset(order[: round(part * len(order))]))
        if choice is not None:
            yield keeping(problem, choice.kept)
