"""Adapters of language models on a GPU, beside PyTorch's."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.gpu.language_models.prepare import prepare
from benchmarks.gpu.language_models.run import LR, adapters_of, batch_of, planned
from benchmarks.gpu.prepare import copy_runtime
from benchmarks.gpu.steps import OdtcStep
from benchmarks.language_models.models import made
from benchmarks.language_models.prepare import export

MODEL, TOKENS, BATCH = "tiny", 16, 2


def test_prepared_steps_begin_with_the_adapters_of_peft(tmp_path: Path) -> None:
    """And take PyTorch's steps, over a base of few bits."""
    from peft import PeftModel

    exported = tmp_path / "exported"
    exported.mkdir()
    export(MODEL, TOKENS, exported)
    copy_runtime(tmp_path)
    folder = tmp_path / "step"
    prepare(MODEL, TOKENS, BATCH, "int4", "host-vulkan", exported, folder)
    step = OdtcStep(folder, LR)
    step.write_parameters(adapters_of(folder))
    x, y = batch_of(step.about)
    module = PeftModel.from_pretrained(made(MODEL), folder / "adapter", is_trainable=True)
    own = [each for each in module.train().parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=LR, weight_decay=0.01)
    tokens, labels = torch.from_numpy(x["input_ids"]), torch.from_numpy(y)
    theirs, ours = [], []
    for _ in range(3):
        optimizer.zero_grad()
        loss = cross_entropy(module(tokens).logits.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
        ours.append(step(x, y))
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert np.ptp(theirs) > 1e-3
    weights = sum(each.numel() for each in module.parameters())
    # Half a byte for each weight, scales, and what else a program has: less than in float32.
    held = planned(folder, step.about) - step.about["arena_bytes"]
    assert weights / 2 < held < weights * 4


def test_a_machine_with_a_gpu_needs_little() -> None:
    """What a compile, an export to ONNX or an app wants is not installed there."""
    missing = "dict.fromkeys(('tvm', 'onnx', 'onnxruntime', 'elftools', 'onnxscript'))"
    code = f"import sys; sys.modules |= {missing}; import benchmarks.gpu.language_models.run"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
