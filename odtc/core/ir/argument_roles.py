"""Which arguments of a training step are trained, frozen or fed: an attribute of its function.

Passes know arguments by their places; what is frozen is read by no gradient, and may be computed
from again at any time of a step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odtc.core.specs import Argument, Role

if TYPE_CHECKING:
    from tvm import relax

_ROLES = "odtc.roles"


def roles_attribute(arguments: Iterable[Argument]) -> Mapping[str, Sequence[str]]:
    """The attribute of a function with these arguments, in order."""
    return {_ROLES: [item.role.value for item in arguments]}


def arguments_of_role(function: "relax.Function", role: Role) -> "list[relax.Var] | None":
    """The arguments of a role, in order; None of a function of which no roles are known."""
    roles = (function.attrs or {}).get(_ROLES)
    if roles is None:
        return None
    # Other arguments may have come after these.
    pairs = zip(roles, function.params, strict=False)
    return [variable for name, variable in pairs if str(name) == role.value]
