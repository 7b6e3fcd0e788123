"""Parameter groups: options of the optimizer for some of the parameters."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from odtc.core.errors import UsageError
from odtc.core.options.arguments import plainly_made, read_fields
from odtc.core.options.checked_options import check_options, not_negative, options_of, read_options
from odtc.core.options.kinds import ANYTHING, TEXT, mapping
from odtc.core.options.option_text import parse_options
from odtc.frontend.optimizers.optimizer import Optimizer

FORM = "'*.bias{weight-decay=0,lr-factor=0.1}'"

_GLOB = TEXT.with_hint("give a glob over the names of parameters, such as '*.bias'")
_OPTIONS = mapping(
    ANYTHING, "dictionary", "give options of the optimizer by name: {'weight_decay': 0.0}"
)


@plainly_made
@dataclass(frozen=True)
class Group:
    """Parameters that a glob matches, and their own options.

    Args:
        glob: pattern of ONNX initializer names.
        options: options of the optimizer, by name, that replace its own.
        lr_factor: factor of the learning rate, at least 0.

    Raises:
        UsageError: `lr_factor` is outside its bound.
    """

    glob: str
    options: Mapping[str, float | bool] = field(default_factory=dict)
    lr_factor: float = not_negative(1.0)

    def __post_init__(self) -> None:
        read_fields(self, {"glob": _GLOB, "options": _OPTIONS})
        check_options(self)

    def applied(self, optimizer: Optimizer) -> Optimizer:
        """The optimizer with the options of the group.

        Raises:
            UsageError: it has no such option, or a value is outside its bound.
        """
        known = options_of(type(optimizer))
        for name in self.options:
            if name not in known:
                raise UsageError(
                    f"the optimizer {optimizer.name} has no option {name!r}",
                    where=f"group {self.glob}",
                    hint=f"its options are {', '.join(known)}",
                )
        return dataclasses.replace(optimizer, **self.options)

    def read_for(self, optimizer: Optimizer) -> "Group":
        """The group with options as the optimizer reads them: numbers of NumPy are Python's.

        Raises:
            UsageError: as of `applied`.
        """
        applied = self.applied(optimizer)
        return dataclasses.replace(
            self, options={name: getattr(applied, name) for name in self.options}
        )


@dataclass(frozen=True)
class ParameterRule:
    """How one parameter is updated.

    Attributes:
        optimizer: the rule with the parameter's own options.
        lr_factor: multiplies the learning rate.
    """

    optimizer: Optimizer
    lr_factor: float = 1.0


def parse_group(text: str, optimizer: Optimizer) -> Group:
    """Reads `GLOB{weight-decay=0,lr-factor=0.1}`; the glob is all before the last brace.

    Raises:
        UsageError: the text is malformed, or an option or a value is unknown.
    """
    glob, brace, options = text.rpartition("{")
    try:
        _, given = parse_options(f"group{brace}{options}")
    except ValueError as error:
        raise UsageError(
            f"cannot read the group {text!r}: {error}", hint=f"write {FORM}"
        ) from error
    if not glob or not given:
        raise UsageError(f"the group {text!r} has no glob or no options", hint=f"write {FORM}")
    factor = {key: given.pop(key) for key in ("lr-factor", "lr_factor") if key in given}
    what = f"optimizer {optimizer.name}"
    read = read_options(what, type(optimizer), given)
    return Group(glob, read, **read_options("group", Group, factor))


def rule_of(name: str, optimizer: Optimizer, groups: Sequence[Group]) -> ParameterRule:
    """How the parameter of that name is updated: by the first group that matches it."""
    for group in groups:
        if fnmatchcase(name, group.glob):
            return ParameterRule(group.applied(optimizer), group.lr_factor)
    return ParameterRule(optimizer)


def check_groups(groups: Iterable[Group], names: Sequence[str]) -> None:
    """Checks that each group matches one of the trained parameters.

    Raises:
        UsageError: one matches none.
    """
    for group in groups:
        if not any(fnmatchcase(name, group.glob) for name in names):
            raise UsageError(
                f"no trained parameter matches the group {group.glob!r}",
                hint="`odtc check MODEL` lists the parameters' names",
            )
