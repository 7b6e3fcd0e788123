"""The weights of an adapter go to a step of another optimizer, whose state begins anew."""

from pathlib import Path

import numpy as np
import pytest
import torch

import odtc
from odtc.core.errors import ArtifactError
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch


@pytest.mark.parametrize("optimizers", [("adamw", "sgd"), ("sgd", "adam")])
def test_weights_alone_are_taken_up(optimizers: tuple[str, str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), tmp_path / "net.onnx")
    one, two = (
        odtc.compile(tmp_path / "net.onnx", TARGET, batch=BATCH, optimizer=each, **LORA)
        for each in optimizers
    )
    with one.trainer(threads=1) as trainer, two.trainer(threads=1) as other:
        trainer.step(*batch(0), lr=LR)
        trainer.save_adapter(tmp_path / "a")
        with pytest.warns(UserWarning, match="its optimizer's state and its 1 steps are not"):
            other.load_adapters(tmp_path / "a")
        for name, value in trainer.parameters().items():
            np.testing.assert_array_equal(other.parameters()[name], value)
        other.step(*batch(1), lr=LR)
        # All of it is another matter.
        with pytest.raises(ArtifactError, match=f"written with optimizer {optimizers[0]}"):
            other.load_checkpoint(tmp_path / "a")
