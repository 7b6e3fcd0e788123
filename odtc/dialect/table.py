"""All operators of our own, by name: whoever has a table of operators asks this one.

Each folder of `odtc/dialect` has a family of them. A file in one is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import odtc.dialect
from odtc.dialect.operator import RelaxOperator


def _files() -> list[ModuleType]:
    """The modules of the families."""
    found = []
    for family in iter_modules(odtc.dialect.__path__, "odtc.dialect."):
        if family.ispkg:
            package = import_module(family.name)
            found += [
                import_module(each.name)
                for each in walk_packages(package.__path__, f"{family.name}.")
            ]
    return found


OPERATORS: dict[str, RelaxOperator] = {
    each.name: each
    for file in _files()
    for each in vars(file).values()
    if isinstance(each, RelaxOperator)
}
