"""Every optimizer by its name, and how one is read from text."""

from odtc.core.checked_options import parse_choice
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
    kind, options = parse_choice(
        "optimizer", text, OPTIMIZERS, "sgd or adamw{beta1=0.9,weight-decay=0.01}"
    )
    return kind(**options)
