"""Language models of real sizes, with random weights that few bits hold."""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.language_models.configs import ALPHA, CONFIGS, RANK, TARGETS, UNIT


def made(name: str) -> nn.Module:
    """A model with the same random weights each time."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**CONFIGS[name], use_cache=False)
    module = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randint(-7, 8, parameter.shape, generator=draw) * UNIT)
    return module


def adapted(module: nn.Module) -> nn.Module:
    """The model with new adapters, of which none is zero."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules=[*TARGETS], init_lora_weights=False
    )
    wrap: Callable[..., nn.Module] = get_peft_model
    return wrap(module, config)
