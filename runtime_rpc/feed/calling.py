"""Says plainly what is wrong with the arguments of a trainer's methods."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from odtc.core.errors import DataError, UsageError
from odtc.core.options.arguments import bind
from odtc.core.options.kinds import shown
from odtc.core.printable import with_article

P = ParamSpec("P")
R = TypeVar("R")

# An object of its own: who gives a nan has given a rate.
NO_RATE = float("nan")
"""The learning rate where none is given."""
_FLOAT32_MAX = float(np.finfo(np.float32).max)
SEVERAL = "; several inputs, or labels, go as one mapping {name: array} each"
_PAIRS = f"give pairs (x, y){SEVERAL}"

_SCHEDULE = (
    "call the schedule, as in step(x, y, lr=schedule(trainer.updates)), or give it to trainer.train"
)


def plain_arguments(method: Callable[P, R]) -> Callable[P, R]:
    """A method that says by a UsageError that it was called with too many or too few arguments."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            # Bound after the fact: a step that is right pays nothing for it.
            _check_bound_by(method, args, kwargs, error)
            raise

    return call


def _check_bound_by(
    method: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: TypeError,
) -> None:
    signature = inspect.signature(method)
    names = [*signature.parameters][1:]
    where = f"trainer.{method.__name__}"
    try:
        bind(signature, where, args, kwargs, names, SEVERAL)
    except UsageError as misfit:
        raise misfit from error


def learning_rate(rate: Any) -> float:
    """A learning rate as a number.

    Args:
        rate: a number, or an array or tensor without dimensions.

    Raises:
        UsageError: it is no number: a label, say, that was given in its place.
        DataError: it is not a finite float32, or was not given.
    """
    if (
        isinstance(rate, str | bytes | bool)
        or getattr(rate, "ndim", 0)
        or not hasattr(rate, "__float__")
    ):
        raise UsageError(
            f"the learning rate is {shown(rate)}, not a number",
            where="lr",
            hint=_SCHEDULE if callable(rate) else f"call step(x, y, lr=0.01){SEVERAL}",
        )
    try:
        number = float(rate)
    except OverflowError:
        number = math.inf if rate > 0 else -math.inf
    if number < 0:
        raise DataError(
            f"the learning rate {number:g} is below 0: the loss would be maximised",
            where="lr",
            hint="give one of 0 or more, such as 0.01",
        )
    if not abs(number) <= _FLOAT32_MAX:
        if rate is NO_RATE:
            said, kind = "no learning rate is given", "one"
        else:
            said = f"the learning rate {number} is not a finite float32"
            kind = "a number" if np.isnan(number) else "a lower one"
        raise DataError(said, where="lr", hint=f"give {kind}, such as lr=0.01")
    return number


def schedule_of(lr: Any) -> Callable[[int], Any]:
    """The learning rate of each step, from the number of updates before it.

    Args:
        lr: a number for all of them, or such a function.

    Raises:
        UsageError: the function takes no number.
    """
    if not callable(lr):
        return lambda _: lr
    try:
        inspect.signature(lr).bind(0)
    except ValueError:  # one without a signature, such as a function in C
        return lr
    except TypeError as error:
        raise UsageError(
            f"lr is {shown(lr)} that does not take the number of updates: {error}",
            where="trainer.train",
            hint="give a number, or a function such as odtc.schedules.Cosine(0.1, steps=900)",
        ) from None
    return lr


def pairs(
    batches: Iterable[Any],
    as_pair: Callable[[Any], Any] = lambda batch: batch,
    hint: str = _PAIRS,
) -> Iterator[tuple[Any, Any]]:
    """The batches of a training, each a pair of input and label.

    Args:
        batches: of a loader.
        as_pair: makes pairs of those that have inputs and labels in another form.
        hint: for one that is no pair.

    Raises:
        UsageError: there is nothing to iterate over, or a batch is no pair.
    """
    if not isinstance(batches, Iterable) and not hasattr(batches, "__getitem__"):
        raise UsageError(
            f"batches are {shown(batches)}, not an iterable",
            where="trainer.train",
            hint="give a list of pairs (x, y), or a DataLoader",
        )
    for number, given in enumerate(batches):
        batch = as_pair(given)
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            length = f" of {len(batch)}" if hasattr(batch, "__len__") else ""
            raise UsageError(
                f"batch {number} is {with_article(type(batch).__name__)}{length}, not an "
                "(input, label) pair",
                where="trainer.train",
                hint=hint,
            )
        yield batch[0], batch[1]
