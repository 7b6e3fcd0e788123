"""Checks the arguments of public functions by one table, where they are called.

    @takes("odtc.load", path=PATH)
    def load(path): ...

An argument of another kind is a UsageError that names it, what was given and what is wanted. What
it may be beside its kind, such as a name that the model has, is checked where that is known.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from odtc.core.errors import UsageError
from odtc.core.options.caller_warning import warn_renamed
from odtc.core.options.kinds import Kind, MisfitError
from odtc.core.options.option_text import meant
from odtc.core.process.missing_packages import missing_package

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def read_argument(of: Kind, value: Any, name: str, where: str) -> Any:
    """A value in its own type.

    Args:
        of: what it may be.
        value: what was given.
        name: of the argument.
        where: whose argument it is.

    Raises:
        UsageError: it is of another kind.
    """
    try:
        return of.read(value, name)
    except MisfitError as error:
        raise UsageError(str(error), where=where, hint=of.hint) from None


def read_fields(of: Any, kinds: Mapping[str, Kind]) -> None:
    """Gives fields of a frozen dataclass their own types.

    Raises:
        UsageError: one is of another kind.
    """
    where = _public_name(type(of))
    for name, each in kinds.items():
        object.__setattr__(of, name, read_argument(each, getattr(of, name), name, where))


def _public_name(kind: type) -> str:
    """The name by which users know a class: of `odtc` itself, or of a module of it."""
    module = "odtc.schedules" if kind.__module__ == "odtc.schedules" else "odtc"
    return f"{module}.{kind.__name__}"


def takes(
    where: str, hint: str = "", renamed: Mapping[str, str] = _NO_NAMES, /, **kinds: Kind
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that says by a UsageError what is wrong with its arguments.

    Args:
        where: what its user calls it.
        hint: what is said where a call has too many or too few of them.
        renamed: old names of arguments, which are taken with a warning, each with its new one.
        kinds: of each of its arguments.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        names = [name for name in signature.parameters if name in kinds]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            named = _by_new_names(kwargs, renamed, where) if renamed else kwargs
            bound = bind(signature, where, args, named, names, hint)
            held = bound.arguments
            for name in held.keys() & kinds.keys():
                held[name] = read_argument(kinds[name], held[name], name, where)
            try:
                return function(*bound.args, **bound.kwargs)
            except ModuleNotFoundError as error:
                if said := missing_package(error, where):
                    raise said from error
                raise

        return call

    return decorated


def _by_new_names(
    given: Mapping[str, Any], renamed: Mapping[str, str], where: str
) -> dict[str, Any]:
    """Arguments by the names that they have now; a warning tells of each old one.

    Raises:
        UsageError: one is given by both of its names.
    """
    for old in [name for name in given if name in renamed]:
        new = renamed[old]
        if new in given:
            raise UsageError(
                f"{old} and {new} are the same argument", where=where, hint=f"give {new} alone"
            )
        warn_renamed(f"{where}({old}=...)", f"{new}=...")
    return {renamed.get(name, name): value for name, value in given.items()}


def plainly_made(kind: type[T]) -> type[T]:
    """A class of options that says by a UsageError that it was made with others."""
    made, where = kind.__init__, _public_name(kind)

    @wraps(made)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            made(self, *args, **kwargs)
        except TypeError:
            # Bound after the fact: what is right pays nothing for it.
            signature = inspect.signature(made)
            bind(signature, where, (self, *args), kwargs, [*signature.parameters][1:])
            raise

    kind.__init__ = make  # type: ignore[method-assign]
    return kind


def bind(
    signature: inspect.Signature,
    where: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
    hint: str = "",
) -> inspect.BoundArguments:
    """The arguments of a call, by name.

    Args:
        signature: of the function.
        where: what its user calls it.
        args: that were given by place.
        kwargs: that were given by name.
        names: of all that it takes.
        hint: what else is said.

    Raises:
        UsageError: they are too many or too few, or one has a name that there is not.
    """
    unknown = next((name for name in kwargs if name not in names), None)
    if unknown is None:
        near = ""
        try:
            return signature.bind(*args, **kwargs)
        except TypeError as error:
            problem = str(error)
    else:
        problem = f"got an unexpected keyword argument {unknown!r}"
        near = meant(unknown, names)
    called = where.rpartition(".")[2]
    raise UsageError(
        f"{called} does not take these arguments: {problem}",
        where=where,
        hint=f"{near}call {called}({', '.join(names)}){hint}",
    )
