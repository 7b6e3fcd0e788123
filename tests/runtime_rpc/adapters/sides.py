"""A language model with adapters, in odtc and in PEFT."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

import odtc
from tests.runtime_rpc.adapters.language_models import BATCH, LANGUAGES, language, tokens

RANK, ALPHA = 2, 6
LOSS = "cross-entropy{axis=2,ignore-index=-100}"


def compiled(name: str, folder: Path, **options: Any) -> tuple[nn.Module, odtc.Artifact]:
    """A model, and its step with adapters."""
    module, path = language(name), folder / f"{name}.onnx"
    odtc.from_torch(module, {"input_ids": tokens(0)[0]}, path)
    lora = odtc.LoRA(rank=RANK, alpha=ALPHA, targets=LANGUAGES[name].globs)
    given = {"optimizer": "adamw", "loss": LOSS, "lora": lora, **options}
    return module, odtc.compile(path, batch=BATCH, **given)


def adapted(name: str, module: nn.Module, **options: Any) -> PeftModel:
    """PEFT's model, with adapters that are not zero."""
    given = {"r": RANK, "lora_alpha": ALPHA, "target_modules": list(LANGUAGES[name].targets)}
    torch.manual_seed(1)
    return get_peft_model(
        copy.deepcopy(module), LoraConfig(init_lora_weights=False, **{**given, **options})
    )


def logits(module: nn.Module, ids: torch.Tensor) -> np.ndarray:
    """Those of a model in its evaluation mode."""
    with torch.no_grad():
        return module.eval()(input_ids=ids).logits.numpy()
