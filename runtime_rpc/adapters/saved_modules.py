"""What is trained beside adapters, as PEFT has it: whole modules (`modules_to_save`), and biases.

PEFT takes a whole module, so all weights of it that the step has go with those that it trains. A
module with an adapter is none of these; of its parameters PEFT keeps the bias, where it keeps
those of all such modules (`bias="lora_only"`) or of all modules (`bias="all"`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.quantised_names import plain_name
from odtc.core.specs import WEIGHT_ROLES, Argument, Role

_SHOWN = 3
_FROZEN = (
    "but this step does not train them, and its export_peft leaves them out; compile with --train "
    "for these names, too"
)
_HINT = "train other parameters in addition to the adapters, or export the model with merge=False"


@dataclass(frozen=True)
class Beside:
    """What a folder of PEFT has beside its adapters.

    Attributes:
        modules: that are saved whole.
        bias: which biases are in it, in PEFT's word.
        weights: of these modules, and these biases.
    """

    modules: Sequence[str]
    bias: str
    weights: Sequence[Argument]


def saved_beside(manifest: Manifest, skeleton: Path) -> Beside:
    """What changes beside the adapters of a step.

    Args:
        manifest: of a step with adapters.
        skeleton: the original graph, which says what is tied.

    Raises:
        UnsupportedError: PEFT cannot keep it: it is shared with another module, has no module, or
            is of one with an adapter, and no bias, or not all biases of such modules are trained.
    """
    added = {name for adapter in manifest.adapters for name in adapter.tensors}
    weights = [item for item in manifest.of_role(*WEIGHT_ROLES) if item.spec.name not in added]
    moved = [item for item in weights if item.role in (Role.PARAMETER, Role.STATISTIC)]
    bias, biases = _biases(manifest, weights, moved)
    found = {_module(item.spec.name): item.spec.name for item in moved if item not in biases}
    saved = {
        module: [item for item in weights if _module(item.spec.name) == module] for module in found
    }
    ties = _tied(skeleton) if saved else frozenset()
    for module, items in saved.items():
        if not module:
            _refuse(found[module], "it is of no module that PEFT could save")
        if shared := sorted(ties.intersection(item.spec.name for item in items)):
            reason = f"{shared[0]} is shared with another module, and PEFT would part them"
            _refuse(found[module], reason)
    whole = [item for items in saved.values() for item in items]
    return Beside(sorted(saved), bias, [*whole, *biases])


def adapted_modules(manifest: Manifest) -> frozenset[str]:
    """The modules whose weights have adapters."""
    return frozenset(_module(plain_name(adapter.weight)) for adapter in manifest.adapters)


def _biases(
    manifest: Manifest, weights: Sequence[Argument], moved: Sequence[Argument]
) -> tuple[str, Sequence[Argument]]:
    """PEFT's word for the biases that are trained, and they; none where no adapted module's is.

    Raises:
        UnsupportedError: PEFT has no word for them.
    """
    adapted = adapted_modules(manifest)
    there = [item for item in moved if _module(item.spec.name) in adapted]
    if not there:
        return "none", ()
    if other := [item for item in there if not _is_bias(item)]:
        name = other[0].spec.name
        _refuse(name, f"its module {_module(name)} has an adapter, and of such PEFT saves the bias")
    every = [item for item in weights if _is_bias(item)]
    if moved == every:
        return "all", every
    own = [item for item in every if _module(item.spec.name) in adapted]
    if left := [item.spec.name for item in own if item not in there]:
        _refuse(
            there[0].spec.name,
            "PEFT saves the biases of all modules with adapters (bias='lora_only'), or of none, "
            f"and {left[0]} is not trained",
        )
    return "lora_only", own


def _is_bias(item: Argument) -> bool:
    return item.spec.name.rpartition(".")[2] == "bias"


def _refuse(name: str, reason: str) -> NoReturn:
    raise UnsupportedError(
        f"a folder of PEFT cannot hold {name}, which is trained in addition to the adapters: "
        f"{reason}",
        hint=_HINT,
    )


def moved_text(names: Iterable[str]) -> str:
    """Says that weights that a folder has trained are frozen in the step."""
    return f"{_listed(names)} of the folder were trained there: they are taken up, {_FROZEN}"


def unmoved_text(names: Iterable[str]) -> str:
    """Says that modules that a folder saved whole are as in the step, and frozen there."""
    return (
        f"the folder saves {_listed(names)} whole (modules_to_save), as the step has it, {_FROZEN}"
    )


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{', '.join(listed[:_SHOWN])}{more}"


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _tied(skeleton: Path) -> frozenset[str]:
    """The weights that a module has under several names."""
    import onnx  # 11 MB, which a trainer has no other use for

    from odtc.core.onnx_model.weight_list import read_weight_list

    listed = read_weight_list(onnx.load(skeleton, load_external_data=False))
    return frozenset(listed.ties.values()) if listed else frozenset()
