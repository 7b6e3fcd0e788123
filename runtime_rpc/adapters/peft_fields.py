"""What becomes of each field of an `adapter_config.json` of Hugging Face PEFT when it is read.

    compared     with the step: a difference is refused (`odtc/runtime_rpc/adapters/peft_config.py`)
    refused      where it is set: PEFT computes something else then
    told         where it is set: a step goes on otherwise than PEFT would
    of modules   it says which modules have adapters: the tensors of the folder have to agree
                 (`odtc/runtime_rpc/adapters/peft_targets.py`)
    of no value  it changes no number that the adapters give

A field that is in none of these is told, unless it is empty: a later PEFT has given it a meaning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odtc.core.adapters import Adapter

COMPARED = frozenset(
    "peft_type r lora_alpha use_rslora rank_pattern alpha_pattern use_dora init_lora_weights "
    "modules_to_save".split()
)
# Each changes what an adapter computes, or adds tensors that a step has no place for.
REFUSED = frozenset(
    "alora_invocation_tokens arrow_config kasa_config layer_replication lora_bias "
    "monteclora_config trainable_token_indices use_bdlora use_qalora velora_config".split()
)
OF_MODULES = frozenset(
    "exclude_modules layers_pattern layers_to_transform target_modules target_parameters".split()
)
OF_NO_VALUE = frozenset(
    "auto_mapping base_model_name_or_path bias corda_config ensure_weight_tying eva_config "
    "fan_in_fan_out inference_mode loftq_config lora_ga_config megatron_config megatron_core "
    "peft_version qalora_group_size revision runtime_config task_type".split()
)
TOLD = frozenset(["lora_dropout"])
KNOWN = COMPARED | REFUSED | OF_MODULES | OF_NO_VALUE | TOLD

# First values of A and B that leave the base as it is; True and False are among them, too.
_ON_THE_BASE = frozenset(["gaussian", "eva", "orthogonal", "mica"])
_FROZEN_UP = "mica"


def refusals(config: Mapping[str, Any]) -> Iterator[str]:
    """Why PEFT computes something else than W + scale * A B, or than DoRA does of that."""
    for name in sorted(REFUSED):
        if config.get(name):
            yield f"{name} is set in the folder, and the step has no such adapters"
    init = config.get("init_lora_weights", True)
    is_known = isinstance(init, str) and init.lower() in _ON_THE_BASE
    if not (isinstance(init, bool | None) or is_known):
        yield (
            f"init_lora_weights is {init!r} in the folder, where PEFT changes the base itself, or "
            "may: its adapters do not fit the model's own weights. PEFT writes such that do: "
            "save_pretrained(FOLDER, path_initial_model_for_weight_conversion=FIRST)"
        )


def notes(config: Mapping[str, Any], adapters: Sequence[Adapter]) -> Iterator[str]:
    """What is otherwise in the step than PEFT would have it, though what it computes is the same.

    Args:
        config: of the folder.
        adapters: of the step; at least one.
    """
    here = max(each.dropout for each in adapters)
    there = config.get("lora_dropout", 0.0)
    if here != there:
        yield (
            f"the folder's adapters were trained with a dropout of {there}, the step has {here:g}"
        )
    init = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() == _FROZEN_UP:
        yield f"PEFT trains A alone where init_lora_weights is {init!r}; the step trains A and B"
    others = sorted(name for name in config.keys() - KNOWN if config[name])
    if others:
        yield (
            f"the configuration has {', '.join(others)}, which odtc does not know: compare what "
            "the step computes with PEFT's"
        )
