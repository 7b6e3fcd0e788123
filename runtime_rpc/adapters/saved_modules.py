"""Modules that are trained whole beside adapters, such as a new head: PEFT's `modules_to_save`.

PEFT takes a whole module, so all weights of it that the step has go with those that it trains.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.weight_list import read_weight_list
from odtc.core.specs import WEIGHT_ROLES, Argument, Role

_SHOWN = 3
_HINT = "train other parameters beside the adapters, or export the model with merge=False"


def saved_modules(manifest: Manifest, skeleton: Path) -> Mapping[str, list[Argument]]:
    """The modules with weights that change beside the adapters, each with all of its weights.

    Args:
        manifest: of a step with adapters.
        skeleton: the original graph, which says what is tied.

    Raises:
        UnsupportedError: PEFT cannot keep such a module: its weight has an adapter, too, is shared
            with another module, or has no module.
    """
    adapted = {adapter.weight for adapter in manifest.adapters}
    added = {name for adapter in manifest.adapters for name in adapter.tensors}
    weights = [item for item in manifest.of_role(*WEIGHT_ROLES) if item.spec.name not in added]
    moved = [item for item in weights if item.role in (Role.PARAMETER, Role.STATISTIC)]
    found = {_module(item.spec.name): item.spec.name for item in moved}
    saved = {
        module: [item for item in weights if _module(item.spec.name) == module] for module in found
    }
    ties = _tied(skeleton) if saved else frozenset()
    for module, items in saved.items():
        names = {item.spec.name for item in items}
        reason = ""
        if not module:
            reason = "it is of no module that PEFT could save"
        elif names & adapted:
            reason = f"the weight of its module {module} has an adapter, and PEFT saves no such one"
        elif shared := sorted(names & ties):
            reason = f"{shared[0]} is shared with another module, and PEFT would part them"
        if reason:
            raise UnsupportedError(
                f"a folder of PEFT cannot hold {found[module]}, which is trained beside the "
                f"adapters: {reason}",
                hint=_HINT,
            )
    return saved


def moved_text(names: Iterable[str]) -> str:
    """Says that weights that a folder has trained are frozen in the step."""
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return (
        f"{', '.join(listed[:_SHOWN])}{more} of the folder were trained there: they are taken up, "
        "but this step does not train them, and its export_peft leaves them out; compile with "
        "--train for these names, too"
    )


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _tied(skeleton: Path) -> frozenset[str]:
    """The weights that a module has under several names."""
    listed = read_weight_list(onnx.load(skeleton, load_external_data=False))
    return frozenset(listed.ties.values()) if listed else frozenset()
