"""Whether the calls of one update count as much as their labels weigh.

A mean over what labels weigh, or over rows that are as long as their batch, is over another number
in each of the batches whose gradients are added up. The update is that of all of them as one batch
where this number is known (`Loss.divisor`), and one number says how much a call counts: so it is
with a single loss of odtc's own.
"""

from collections.abc import Sequence

from odtc.core.errors import UnsupportedError
from odtc.frontend.losses.given import InModel
from odtc.frontend.losses.loss import COUNTED, SUM
from odtc.frontend.losses.objective import Aim

_IN_MODEL = "the model computes the loss, and nothing shows what it is a mean over"
_SEVERAL = "there are several losses, which are means over different labels"


def is_weighed(aims: Sequence[Aim], *, several_lengths: bool) -> bool:
    """Whether calls count as much as their labels weigh.

    Args:
        aims: the losses.
        several_lengths: whether a step is taken at one of several lengths.
    """
    return len(aims) == 1 and _differs(aims[0], several_lengths)


def note_of(aims: Sequence[Aim], *, several_lengths: bool) -> str:
    """Says that steps of an update count the same, though they should not; empty where that is so.

    See `is_weighed` for the arguments.
    """
    if any(isinstance(aim.loss, InModel) for aim in aims):
        reason = _IN_MODEL
    elif len(aims) > 1 and any(_differs(aim, several_lengths) for aim in aims):
        reason = _SEVERAL
    else:
        return ""
    return (
        f"each step of an update counts the same, however many labels of it count: {reason}. With "
        "accumulate 1 and a larger batch each label counts the same"
    )


def require_one(aims: Sequence[Aim]) -> None:
    """Checks that a step may be taken in several calls.

    Raises:
        UnsupportedError: their losses do not make that of the batch.
    """
    if len(aims) > 1 and COUNTED in [aim.loss.parts() for aim in aims]:
        raise UnsupportedError(
            f"{_SEVERAL}: they count differently from one micro-batch to the next",
            hint="leave out ignore-index and the classes' weights, or take sums: {reduction=sum}",
        )
    for aim in aims:
        aim.loss.parts()


def _differs(aim: Aim, several_lengths: bool) -> bool:
    if isinstance(aim.loss, InModel):
        return False
    parts = aim.loss.parts()
    return parts == COUNTED or (several_lengths and parts != SUM)
