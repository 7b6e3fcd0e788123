"""Adapters of language models at several lengths, beside PEFT's on rows that nothing fills up."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import odtc
from tests.runtime_rpc.adapters.language_models import LANGUAGES, WORDS, language

BATCH, LONGEST = 2, 12
ROWS = ((12, 9), (3, 4), (7, 2), (5, 5), (8, 6))
RANK, ALPHA = 2, 4


def batch_of(rows: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of so many tokens, filled up to the longest, and the tokens that follow."""
    rng = np.random.default_rng(seed)
    there = np.arange(LONGEST) < np.array(rows)[:, None]
    ids, labels = rng.integers(1, WORDS, (2, BATCH, LONGEST))
    return np.where(there, ids, 0), np.where(there, labels, -100)


def loss_of(model: Any, ids: np.ndarray, labels: np.ndarray, rows: tuple[int, ...]):
    losses = [
        F.cross_entropy(
            model(input_ids=torch.from_numpy(ids[n : n + 1, :size])).logits[0],
            torch.from_numpy(labels[n, :size]),
            reduction="sum",
        )
        for n, size in enumerate(rows)
    ]
    return torch.stack(losses).sum() / sum(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
def test_five_steps_are_those_of_peft(name: str, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    module = language(name)
    path = odtc.from_torch(
        module,
        {"input_ids": torch.zeros(2, LONGEST, dtype=torch.int64)},
        tmp_path / "m.onnx",
        length_axis={"input_ids": 1},
    ).path
    targets = [*LANGUAGES[name].targets]
    artifact = odtc.compile(
        path,
        "host-cpu{threads=1}",
        batch=BATCH,
        lengths=(4, 8, LONGEST),
        loss="cross-entropy{axis=2,ignore-index=-100}",
        optimizer=odtc.AdamW(weight_decay=0.0),
        lora=odtc.LoRA(rank=RANK, alpha=ALPHA, targets=LANGUAGES[name].globs),
    )
    start = get_peft_model(
        language(name), LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets)
    )
    with torch.no_grad():
        for key, value in start.named_parameters():
            if "lora" in key:
                value.normal_(0, 0.1, generator=torch.Generator().manual_seed(len(key)))
    start.save_pretrained(str(tmp_path / "start"))
    model = PeftModel.from_pretrained(language(name), tmp_path / "start", is_trainable=True)
    update = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.0
    )
    with artifact.trainer() as trainer:
        trainer.load_adapters(tmp_path / "start")
        for seed, rows in enumerate(ROWS):
            ids, labels = batch_of(rows, seed)
            update.zero_grad()
            expected = loss_of(model, ids, labels, rows)
            expected.backward()
            update.step()
            assert trainer.step(ids, labels, lr=0.01) == pytest.approx(expected.item(), rel=2e-6)
        ids, _ = batch_of(ROWS[0], 0)
        with torch.no_grad():
            wanted = model(input_ids=torch.from_numpy(ids)).logits.numpy()
        np.testing.assert_allclose(trainer.evaluate(ids), wanted, rtol=0, atol=1e-4)
