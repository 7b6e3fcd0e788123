"""What a caller gives as callbacks: each is checked before the first step."""

import inspect
from collections.abc import Sequence
from typing import Any

from odtc.core.disk.outputs import check_outputs
from odtc.core.elsewhere.names import NAMES
from odtc.core.elsewhere.rows import said_of
from odtc.core.errors import UsageError
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import shown
from odtc.core.options.option_text import did_you_mean
from odtc.runtime_rpc.loop.callback import Callback, OnEpoch, unknown_hooks
from odtc.runtime_rpc.loop.keeping import BestCheckpoint, Checkpoint
from odtc.runtime_rpc.loop.logs import JsonLines

_HOOKS = {
    name: [*inspect.signature(hook).parameters][1:]
    for name, hook in vars(Callback).items()
    if name.startswith("on_")
}
# What Keras, Lightning and transformers give a hook first, where odtc gives the run.
_OTHERS_FIRST = ("epoch", "batch", "logs", "trainer", "args")


def callbacks_of(given: Sequence[Any]) -> list[Callback]:
    """The callbacks of a run, in their order.

    Args:
        given: `Callback` objects, and functions of the row of each epoch.

    Raises:
        UsageError: one is neither, or does not take what it is called with; two write one file.
    """
    found = [_callback(each) for each in given]
    kept = (each for each in found if isinstance(each, Checkpoint | BestCheckpoint | JsonLines))
    check_outputs([each.path for each in kept], {})
    return found


def _callback(given: Any) -> Callback:
    if isinstance(given, Callback):
        _check_hooks(given)
        return given
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if callable(given) and not isinstance(given, type):
        _check_call(given, getattr(given, "__name__", name), ["row"])
        return OnEpoch(given)
    said = said_of(name, NAMES)
    if name in _own_names():
        said = f"give odtc.{name}(...)"
    raise UsageError(
        f"a callback is {shown(given)}, which is neither an odtc.Callback nor a function",
        where="callbacks",
        hint=said or "derive from odtc.Callback, or give a function of the row of each epoch",
    )


def _check_hooks(given: Callback) -> None:
    """Checks the hooks of a class of the user's."""
    name = type(given).__name__
    for hook in unknown_hooks(given):
        warn_caller(
            f"{name}.{hook} is never called: {did_you_mean(hook, _HOOKS)}"
            f"the hooks are {', '.join(sorted(_HOOKS))}"
        )
    for hook, wanted in _HOOKS.items():
        own = getattr(given, hook)
        if getattr(type(given), hook) is getattr(Callback, hook):
            continue
        called = f"{name}.{hook}"
        _check_call(own, called, wanted)
        first = next(iter(inspect.signature(own).parameters), "")
        if first in _OTHERS_FIRST:
            warn_caller(
                f"{called} is called with ({', '.join(wanted)}): what it calls {first} is the run"
            )


def _check_call(function: Any, called: str, wanted: Sequence[str]) -> None:
    """Checks that a function takes what it will be called with.

    Raises:
        UsageError: it does not.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of one in C nobody knows it
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise UsageError(
            f"{called} does not take what it is called with: {error}",
            where="callbacks",
            hint=f"it is called with ({', '.join(wanted)})",
        ) from None


def _own_names() -> set[str]:
    """Names of callbacks that odtc has, which other libraries have, too."""
    waiting, found = [Callback], set()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("odtc."):
            found.add(kind.__name__)
    return found - {OnEpoch.__name__}
