"""A language model with adapters, in odtc and in PEFT."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

import odtc
from tests.runtime_rpc.adapters.language_models import BATCH, LANGUAGES, language, tokens

RANK, ALPHA = 2, 6
LR = 1e-2
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


def follow(trainer: odtc.Trainer, theirs: PeftModel, bound: float) -> None:
    """Takes five steps on both sides, whose losses agree."""
    optimizer = torch.optim.AdamW(
        [p for p in theirs.parameters() if p.requires_grad], lr=LR, weight_decay=0.01
    )
    for seed in range(5):
        ids, labels = tokens(seed)
        optimizer.zero_grad()
        found = theirs(input_ids=ids).logits.flatten(0, 1)
        loss = nn.functional.cross_entropy(found, labels.flatten())
        loss.backward()
        optimizer.step()
        mine = trainer.step(ids.numpy(), labels.numpy(), lr=LR)
        assert mine == pytest.approx(loss.item(), rel=bound)


def agreed(trainer: odtc.Trainer, theirs: PeftModel, module: nn.Module, folder: Path) -> PeftModel:
    """What PEFT reads of a folder of the trainer's adapters, once all three give the same."""
    ids, _ = tokens(9)
    trainer.export_peft(folder, base_model="tiny")
    again = PeftModel.from_pretrained(copy.deepcopy(module), folder)
    expected = trainer.evaluate(ids.numpy())
    assert np.abs(expected - logits(module, ids)).max() > 1e-2
    np.testing.assert_allclose(logits(again, ids), expected, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(logits(theirs, ids), expected, rtol=1e-4, atol=1e-4)
    return again
