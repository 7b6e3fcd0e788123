"""Updates of several steps at different lengths: each token counts the same, as in one batch."""

from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from tests.runtime_rpc.lengths.languages import (
    BATCH,
    LENGTHS,
    LOSS,
    TARGET,
    decoder,
    loss_of,
    ragged,
    save,
)

# Tokens of the rows of each step, three of which make an update.
FILLED = ((12, 9), (1, 2), (4, 4), (3, 5), (12, 12), (2, 1))
WHOLE = ((12, 12), (4, 4), (8, 8), (4, 4), (4, 4), (12, 12))


@pytest.mark.parametrize(
    ("loss", "steps"), [(LOSS, FILLED), ("cross-entropy{axis=2}", WHOLE)], ids=["filled", "whole"]
)
def test_an_update_is_that_of_all_tokens(
    loss: str, steps: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    module = decoder(is_causal=True, has_mask=False)
    path = save(module, tmp_path / "decoder.onnx")
    update = odtc.Update(odtc.SGD(), accumulate=3)
    artifact = odtc.compile(path, TARGET, batch=BATCH, loss=loss, optimizer=update, lengths=LENGTHS)
    by_torch = torch.optim.SGD(module.parameters(), lr=0.5)
    with artifact.trainer() as trainer:
        for first in (0, 3):
            by_torch.zero_grad()
            taken = steps[first : first + 3]
            tokens = sum(map(sum, taken))
            for seed, rows in enumerate(taken, first):
                batch = ragged(module, rows, max(rows), seed)
                expected = loss_of(module, batch, rows)
                (expected * sum(rows) / tokens).backward()
                assert trainer.step(*batch, lr=0.5) == pytest.approx(expected.item(), rel=1e-6)
                assert trainer.label_weight == sum(rows)
            by_torch.step()
        weights = trainer.parameters()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(weights[name], value.numpy(), rtol=0, atol=1e-6)


def test_micro_batches_of_ragged_rows_are_the_batch(tmp_path: Path) -> None:
    module = decoder(is_causal=True, has_mask=False)
    path = save(module, tmp_path / "decoder.onnx")
    artifact = odtc.compile(path, TARGET, batch=4, loss=LOSS, shape={"length": 12}, micro_batches=2)
    by_torch = torch.optim.SGD(module.parameters(), lr=0.5)
    with artifact.trainer() as trainer:
        for seed, rows in enumerate(((12, 9, 1, 2), (3, 1, 7, 12))):
            batch = ragged(module, rows, 12, seed)
            by_torch.zero_grad()
            expected = loss_of(module, batch, rows)
            expected.backward()
            by_torch.step()
            assert trainer.step(*batch, lr=0.5) == pytest.approx(expected.item(), rel=1e-6)
        weights = trainer.parameters()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(weights[name], value.numpy(), rtol=0, atol=1e-6)
