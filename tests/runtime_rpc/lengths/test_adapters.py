"""Adapters over a base of 4 bits: all lengths train the same ones, as one length alone does."""

from pathlib import Path

import numpy as np
import pytest

import odtc
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    decoder,
    ragged,
    save,
)

OPTIONS = {
    "batch": BATCH,
    "loss": LOSS,
    "optimizer": "adamw",
    "lora": "rank=2,alpha=4,targets=query*|value*|out*",
    "quantize": "int4{block=16}",
}


def test_losses_and_adapters_are_those_of_one_length(tmp_path: Path) -> None:
    module = decoder(is_causal=True, has_mask=False)
    path = save(module, tmp_path / "decoder.onnx")
    several = odtc.compile(path, TARGET, lengths=LENGTHS, **OPTIONS)
    alone = odtc.compile(path, TARGET, lengths=LENGTHS[-1], **OPTIONS)
    assert all(each.error > 0 for each in several.manifest.coded)
    assert not alone.manifest.shorter
    assert several.manifest.sizes.parameters == alone.manifest.sizes.parameters
    with several.trainer() as trainer, alone.trainer() as other:
        for seed, rows in enumerate(((12, 9), (3, 4), (8, 2), (4, 4), (7, 12))):
            batch = ragged(module, rows, LENGTHS[-1], seed)
            loss = other.step(*batch, lr=0.01)
            assert trainer.step(*batch, lr=0.01) == pytest.approx(loss, rel=1e-6)
        trainer.export_adapters(tmp_path / "several.safetensors")
        other.export_adapters(tmp_path / "alone.safetensors")
        weights, expected = trainer.parameters(), other.parameters()
    trained = [name for name in expected if "lora" in name]
    assert trained
    for name in trained:
        np.testing.assert_allclose(weights[name], expected[name], rtol=0, atol=2e-6)
