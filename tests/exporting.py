"""PyTorch's exporter by `torch.export`, without what it would do anew in each call of a process."""

from collections.abc import Set
from copy import copy
from functools import cache, wraps
from typing import Any


def exporter_reads_once() -> None:
    """From now on the exporter makes what is alike in all exports in its first alone.

    That is its table of functions, for which onnxscript parses some five hundred, the signatures
    of these, and the set of operators that PyTorch makes of others: most of the time of a small
    export.
    """
    _functions_are_read_once()
    _registry_is_made_once()
    _composites_are_found_once()


def _functions_are_read_once() -> None:
    from torch.onnx._internal import _lazy_import

    scripts: Any = vars(_lazy_import)["onnxscript_apis"]
    # As it is without this; both import onnxscript once something of it is asked for.
    unread = type(scripts)(scripts._name)

    @cache
    def table() -> list[object]:
        return unread.get_torchlib_ops()

    scripts.get_torchlib_ops = table


def _registry_is_made_once() -> None:
    """Each export gets a copy, to which it adds functions of its own."""
    from torch.onnx._internal.exporter import _registration

    kind: Any = _registration.ONNXRegistry
    made = cache(kind.from_torchlib)

    @wraps(made)
    def from_torchlib(*arguments: Any, **named: Any) -> Any:
        registry = copy(made(*arguments, **named))
        registry.functions = {name: [*each] for name, each in registry.functions.items()}
        return registry

    kind.from_torchlib = staticmethod(from_torchlib)


def _composites_are_found_once() -> None:
    """The set is found anew where there are others, as a library of operators was loaded."""
    import torch
    from torch.export import decomp_utils, exported_program

    find = vars(decomp_utils)["_collect_all_valid_cia_ops"]
    registered = torch._C._dispatch_get_registrations_for_dispatch_key
    found: dict[frozenset[str], Set[object]] = {}

    def composites() -> Set[object]:
        now = frozenset(registered("CompositeImplicitAutograd"))
        if now not in found:
            found.clear()
            found[now] = find()
        return found[now]

    for module in (decomp_utils, exported_program):
        vars(module)["_collect_all_valid_cia_ops"] = composites
