"""Guides a walk: what it drops first, and what it keeps only to make other tensors from it again.

`passes/native/guide.h` does the same in C++, and changes with it.
"""

from collections.abc import Collection, Iterator

from odtc.passes.checkpoint.choice import StageChoice
from odtc.passes.checkpoint.problem import Recomputation


class Guide:
    """Follows a choice of what is alive at a moment: one ahead, or the current one.

    Args:
        problem: the step.
        choice: for a moment ahead; without one nothing is dropped first.
    """

    def __init__(self, problem: Recomputation, choice: StageChoice | None = None) -> None:
        self._problem, self._choice = problem, choice
        # Of a choice for the current moment: what was alive then, and is not to be.
        self._unwanted: set[int] | None = None
        self._set_again()

    def turn_to(self, choice: StageChoice, unwanted: Collection[int]) -> None:
        """Follows a choice for the current moment, which does not keep some tensors."""
        self._choice, self._unwanted = choice, set(unwanted)
        self._set_again()

    def _set_again(self) -> None:
        self._again = set(self._choice.again if self._choice else ())
        self._readers: dict[int, list[int]] = {}
        for number in sorted(self._again):
            for tensor in self._problem.tasks.tasks[number].reads:
                self._readers.setdefault(tensor, []).append(number)

    def is_wanted(self, tensor: int, use: int, now: int) -> bool:
        """Whether a tensor that is alive is to stay, or is read before it would have to go.

        Args:
            tensor: the tensor.
            use: the task before which it has to be there.
            now: the current task of the walk.
        """
        choice = self._choice
        if choice is None:
            return True
        if self._unwanted is not None:
            return tensor not in self._unwanted
        return now > choice.task or use < choice.task or tensor in choice.kept

    def is_fetched(self, tensor: int, now: int) -> bool:
        """Whether a tensor is to wait in a storage, if it is dropped now."""
        choice = self._choice
        if choice is None or tensor not in choice.fetched:
            return False
        return now <= choice.task or not self.is_wanted(tensor, now, now)

    def helps(self, tensor: int) -> bool:
        """Whether something was to be made again from a tensor."""
        return tensor in self._readers

    def made_from(self, tensor: int) -> Iterator[int]:
        """Tensors that are still to be made again from one."""
        for number in self._readers.get(tensor, ()):
            if number in self._again:
                yield from self._problem.tasks.tasks[number].allocates

    def has_run_again(self, number: int) -> None:
        """Notes that a task has run again."""
        self._again.discard(number)

    def has_made(self, tensors: Collection[int]) -> None:
        """Takes note of tensors that are alive now: they were not when the choice was made."""
        if self._unwanted:
            self._unwanted.difference_update(tensors)
