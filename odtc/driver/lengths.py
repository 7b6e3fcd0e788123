"""`check_alike`: whether steps of several lengths can share an artifact.

Source ─at_lengths→ a Source for each ─build_together→ steps ─check_alike→ an artifact

Nothing is shared but what has to be: each length has graphs, kernels and a memory plan of its own,
and kernels that come out alike are one in the library.
"""

from collections.abc import Sequence

from odtc.core.errors import UnsupportedError
from odtc.core.specs import FED_ROLES, Argument
from odtc.driver.drafts.evaluated import share_weights
from odtc.driver.drafts.lengths import APART, WHERE
from odtc.driver.fitting import BuiltPlans
from odtc.driver.training import Step


def check_alike(every: Sequence[BuiltPlans]) -> None:
    """Checks that the steps differ in nothing but what they are fed and how they compute.

    Their weights become the same arrays.

    Raises:
        UnsupportedError: they have other weights or state, or one has no program.
    """
    longest, *shorter = (each.step for each in every)
    for step in shorter:
        if _kept(step) != _kept(longest):
            raise _other_weights(step)
        try:
            share_weights(longest.draft.graph, step.draft.graph)
        except UnsupportedError as error:
            raise _other_weights(step) from error
    refused = [each.built.lines.refused for each in every]
    if shorter and any(refused):
        raise UnsupportedError(
            f"only the native runtime has several lengths, and there is no program for it: "
            f"{next(filter(None, refused))}",
            where=WHERE,
        )


def _kept(step: Step) -> list[Argument]:
    """What a trainer keeps from step to step, in order."""
    return [item for item in step.training.arguments if item.role not in FED_ROLES]


def _other_weights(step: Step) -> UnsupportedError:
    return UnsupportedError(
        f"the model has other weights at length {step.source.length}",
        where=WHERE,
        hint=APART,
    )
