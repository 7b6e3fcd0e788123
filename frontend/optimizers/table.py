"""Every optimizer by its name, and how one is read from text."""

from typing import Any

from odtc.core.errors import UsageError
from odtc.core.options.checked_options import make_choice
from odtc.core.options.kinds import shown
from odtc.frontend.optimizers.adam import LAMB, Adam, AdamW
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.scaled import Adagrad, RMSProp
from odtc.frontend.optimizers.sgd import SGD, Lion

OPTIMIZERS: dict[str, type[Optimizer]] = {
    kind.name: kind for kind in (SGD, Adam, AdamW, RMSProp, Adagrad, LAMB, Lion)
}


def parse_optimizer(text: str) -> Optimizer:
    """Reads `sgd` or `adamw{weight-decay=0.01}`.

    Raises:
        UsageError: the text is malformed, or names an optimizer, an option or a value that is none.
    """
    return make_choice("optimizer", text, OPTIMIZERS, "sgd or adamw{beta1=0.9,weight-decay=0.01}")


def optimizer_of(given: Any) -> Optimizer:
    """An optimizer as it is, or from its text.

    Raises:
        UsageError: it is none of odtc's.
    """
    if isinstance(given, str):
        return parse_optimizer(given)
    if not isinstance(given, Optimizer):
        raise UsageError(
            f"the optimizer is {shown(given)}, and none of odtc's",
            where="optimizer",
            hint="give one of odtc's, such as odtc.SGD(momentum=0.9), or its text, such as "
            "sgd{momentum=0.9}; the learning rate goes to each step",
        )
    return given
