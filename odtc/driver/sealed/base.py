"""The hash of the weights that no step changes, which adapters are of."""

from collections.abc import Sequence

from odtc.core.artifact.base import base_of, hash_of
from odtc.core.artifact.beside import Beside
from odtc.core.disk.mapped_arrays import leave_pages
from odtc.core.specs import Role, of_role
from odtc.driver.training import Step


def hash_of_base(step: Step, beside: Sequence[Beside]) -> str:
    """The hash of a step's base, in hex; empty where every weight is trained."""
    known = {each.name: each.sha256 for each in beside}
    weights = step.draft.graph.parameters
    frozen = [item.spec.name for item in of_role(step.training.arguments, Role.FROZEN)]

    def hashed(name: str) -> str:
        """The hash of a weight, whose pages need not stay until all others are read."""
        found = hash_of(weights[name])
        leave_pages([weights[name]])
        return found

    return base_of({name: known.get(name) or hashed(name) for name in frozen})
