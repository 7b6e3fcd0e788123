"""Activations that a recurrent operator can name, with the numbers that they take."""

from collections.abc import Callable
from dataclasses import dataclass

from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.recurrent_layers.recurrent_cells import Activation


@dataclass(frozen=True)
class ActivationForm:
    """An activation.

    Attributes:
        defaults: of alpha and beta, as far as it takes them.
        emit: emits it, given the numbers.
    """

    defaults: tuple[float, ...]
    emit: Callable[..., str]


def _plain(op_type: str) -> ActivationForm:
    return ActivationForm((), lambda emit, x: emit(op_type, x))


def _scaled_tanh(emit: Emit, x: str, alpha: float, beta: float) -> str:
    return emit("Mul", emit("Tanh", emit("Mul", x, beta)), alpha)


FORMS = {
    "affine": ActivationForm((1.0, 0.0), lambda emit, x, a, b: emit("Add", emit("Mul", x, a), b)),
    "elu": ActivationForm((1.0,), lambda emit, x, a: emit("Elu", x, alpha=a)),
    "hardsigmoid": ActivationForm(
        (0.2, 0.5), lambda emit, x, a, b: emit("HardSigmoid", x, alpha=a, beta=b)
    ),
    "leakyrelu": ActivationForm((0.01,), lambda emit, x, a: emit("LeakyRelu", x, alpha=a)),
    "relu": _plain("Relu"),
    "scaledtanh": ActivationForm((1.0, 1.0), _scaled_tanh),
    "sigmoid": _plain("Sigmoid"),
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "tanh": _plain("Tanh"),
    "thresholdedrelu": ActivationForm(
        (1.0,), lambda emit, x, a: emit("ThresholdedRelu", x, alpha=a)
    ),
}


def names(node: Node, default: tuple[str, ...], directions: int) -> list[str]:
    """Names of the activations of all directions, in order."""
    given = node.attrs.get("activations") or [*default] * directions
    return [each.decode() if isinstance(each, bytes) else each for each in given]


def activations(
    node: Node, emit: Emit, default: tuple[str, ...], directions: int
) -> list[list[Activation]]:
    """The activations of each direction.

    Those that take an alpha or a beta take the next one of the node's lists, if there is one.
    """
    numbers = [list(node.attrs.get(f"activation_{which}", ())) for which in ("alpha", "beta")]
    found = [
        _bound(emit, FORMS[each.lower()], numbers) for each in names(node, default, directions)
    ]
    return [found[at * len(default) : (at + 1) * len(default)] for at in range(directions)]


def _bound(emit: Emit, form: ActivationForm, numbers: list[list[float]]) -> Activation:
    values = [
        float(listed.pop(0)) if listed else usual
        for usual, listed in zip(form.defaults, numbers, strict=False)
    ]
    return lambda x: form.emit(emit, x, *values)
