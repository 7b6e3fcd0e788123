"""Which modules a configuration of Hugging Face PEFT gives adapters to.

PEFT leaves out the tensors of a folder that are of other modules. The rules are those of
`check_target_module_exists` in PEFT 0.21.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from odtc.core.adapters import Adapter
from odtc.core.errors import ArtifactError
from odtc.runtime_rpc.adapters.bounded_patterns import matching
from odtc.runtime_rpc.adapters.peft_config import module_of

_ALL_LINEAR = "all-linear"
_EMBEDDING = "lora_embedding_A"
_SHOWN = 3
_AGAIN = "mend it as PEFT has it, or write the folder again by PEFT"


def check_targets(config: Mapping[str, Any], adapters: Sequence[Adapter], where: str) -> None:
    """Checks that PEFT would put adapters where the step has them.

    Args:
        config: of the folder.
        adapters: of the step, which are those of the folder's tensors.
        where: the file of the configuration.

    Raises:
        ArtifactError: it would not, or a field is of a type that PEFT does not have there.
    """
    modules = {module_of(each): each for each in adapters}
    found = _targeted(config, modules, where) - _excluded(config, [*modules], where)
    left = sorted(modules.keys() - found)
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise ArtifactError(
            f"the folder has adapters of {', '.join(left[:_SHOWN])}{more}, which its configuration "
            "does not target: PEFT would leave them out",
            where=where,
            hint="correct target_modules, or the fields next to it (exclude_modules, "
            "layers_to_transform, modules_to_save), or write the folder again by PEFT",
        )


def names_of(field: str, given: object, where: str) -> list[str]:
    """A field's names of modules.

    Raises:
        ArtifactError: it is something else.
    """
    names = [] if given is None else given
    if isinstance(names, list) and all(isinstance(each, str) for each in names):
        return names
    raise ArtifactError(f"{field} is {given!r}, not a list of names", where=where, hint=_AGAIN)


def _targeted(config: Mapping[str, Any], modules: Mapping[str, Adapter], where: str) -> set[str]:
    targets = config.get("target_modules")
    if targets is None and config.get("target_parameters"):
        return set()
    if isinstance(targets, str) and targets.lower() == _ALL_LINEAR:
        return {name for name, each in modules.items() if not each.down.endswith(_EMBEDDING)}
    if isinstance(targets, str):
        found = matching([(targets, name) for name in modules], [targets], where)
        return {name for _, name in found}
    names = names_of("target_modules", targets, where)
    named = {name for name in modules if name in names}
    ending = {name for name in modules if _is_among(name, names)}
    return named | _of_layers(config, ending - named, where)


def _of_layers(config: Mapping[str, Any], modules: set[str], where: str) -> set[str]:
    """Those of some modules that are in the layers that the configuration chooses."""
    wanted = config.get("layers_to_transform")
    wanted = [wanted] if type(wanted) is int else wanted
    if wanted in (None, []):
        return modules
    if not (isinstance(wanted, list) and all(type(each) is int for each in wanted)):
        raise ArtifactError(
            f"layers_to_transform is {wanted!r}, not a list of numbers of layers",
            where=where,
            hint=_AGAIN,
        )
    patterns = config.get("layers_pattern") or []
    given = names_of("layers_pattern", [patterns] if isinstance(patterns, str) else patterns, where)
    starts = [rf"(?:^|.*?\.){each}" for each in given] or [r".*?\.[^.]*"]
    pairs = [(rf"{start}\.(?P<number>\d+)\..*", name) for start in starts for name in modules]
    found = matching(pairs, given, where)
    layers = {}
    for pattern, name in found:
        layers.setdefault(name, int(found[pattern, name]))
    return {name for name, number in layers.items() if number in wanted}


def _excluded(config: Mapping[str, Any], modules: Sequence[str], where: str) -> set[str]:
    """Those of some modules that get no adapters, whatever is targeted."""
    given, saved = config.get("exclude_modules"), config.get("modules_to_save")
    if isinstance(given, str):
        found = {name for _, name in matching([(given, it) for it in modules], [given], where)}
    else:
        names = names_of("exclude_modules", given, where)
        found = {name for name in modules if _is_among(name, names)}
    saved = names_of("modules_to_save", saved, where)
    pairs = [(rf"(^|.*\.){each}($|\..*)", name) for each in saved for name in modules]
    return found | {name for _, name in matching(pairs, saved, where)}


def _is_among(module: str, names: Sequence[str]) -> bool:
    """Whether it is one of the names, or ends with one."""
    return any(module == each or module.endswith(f".{each}") for each in names)
