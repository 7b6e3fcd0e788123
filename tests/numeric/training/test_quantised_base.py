"""Adapters over a quantised base follow PyTorch with the same weights, dequantised."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import odtc
from tests.fast import fast_if
from tests.numeric.plans.frozen_costs import model_of

VOCABULARY, WIDTH, HIDDEN, TOKENS, STEPS, RATE = 160, 48, 104, 5, 5, 0.3


@dataclass(frozen=True)
class Base:
    """How weights are stored.

    Attributes:
        dtype: of their elements.
        block: columns that have one scale, in the last block fewer; 0 for all of a row, -1 for all
            of a matrix.
        zeros: whether there are zero points.
    """

    dtype: str
    block: int
    zeros: bool

    def drawn(self, rows: int, columns: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The tensors of a matrix."""
        kind = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        info = ml_dtypes.iinfo(kind)
        low, high = int(info.min), int(info.max)
        codes = rng.integers(low, high + 1, (rows, columns)).astype(kind)
        shape = {0: (rows,), -1: ()}.get(self.block, (rows, -(-columns // max(self.block, 1))))
        middle = (low + high + 1) // 2
        span = (high - low) * columns**0.5 / 3
        zero = rng.integers(max(middle - 2, low), middle + 3, shape)
        scale = np.asarray((rng.random(shape) + 0.5) / span, np.float32)
        return {"": codes, "_s": scale} | (
            {"_z": np.asarray(zero).astype(kind)} if self.zeros else {}
        )

    def nodes(self, name: str) -> str:
        """The text of what dequantises a matrix to `NAME_d`."""
        attributes = {0: "<axis = 0>", -1: ""}.get(
            self.block, f"<axis = 1, block_size = {self.block}>"
        )
        zero = f", {name}_z" if self.zeros else ""
        return f"{name}_d = DequantizeLinear {attributes} ({name}, {name}_s{zero}) "

    def dense(self, held: Mapping[str, np.ndarray]) -> np.ndarray:
        """The matrix that is meant."""
        codes = held[""].astype(np.float64)
        rows, columns = codes.shape

        def spread(numbers: np.ndarray) -> np.ndarray:
            whole = numbers.astype(np.float64)
            if whole.ndim == 2:
                return np.repeat(whole, self.block, 1)[:, :columns]
            return np.broadcast_to(whole.reshape(-1, 1), (rows, columns))

        zero = spread(held["_z"]) if "_z" in held else 0.0
        return ((codes - zero) * spread(held["_s"])).astype(np.float32)


BASES: Mapping[str, Base] = {
    "int8": Base("int8", 0, zeros=False),
    "int8, one scale": Base("int8", -1, zeros=True),
    "uint8": Base("uint8", 0, zeros=True),
    "int8, blocks": Base("int8", 8, zeros=True),
    "int4, blocks": Base("int4", 8, zeros=False),
    "int4": Base("int4", 0, zeros=True),
    "uint4, blocks": Base("uint4", 4, zeros=True),
    "int4, a part of a block": Base("int4", 32, zeros=True),
}
SHAPES = {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN), "table": (VOCABULARY, WIDTH)}


def model_with(base: Base, batch: int, path: Path) -> dict[str, np.ndarray]:
    """Writes a small language model whose head is its table; gives its matrices as floats."""
    rng = np.random.default_rng(0)
    tensors, dense, text = {}, {}, ""
    for name, shape in SHAPES.items():
        held = base.drawn(*shape, rng)
        tensors |= {f"{name}{key}": value for key, value in held.items()}
        dense[name] = base.dense(held)
        text += base.nodes(name)
    text += (
        "h = Gather (table_d, ids) up_t = Transpose <perm = [1, 0]> (up_d) u = MatMul (h, up_t) "
        "a = Tanh (u) down_t = Transpose <perm = [1, 0]> (down_d) d = MatMul (a, down_t) "
        "r = Add (h, d) t = Transpose <perm = [1, 0]> (table_d) y = MatMul (r, t)"
    )
    ends = f"(int64[{batch}, {TOKENS}] ids) => (float[{batch}, {TOKENS}, {VOCABULARY}] y)"
    onnx.save(model_of(ends, text, tensors), path)
    return dense


def forward(ids: Tensor, dense: Mapping[str, Tensor], lora: Mapping[str, Tensor]) -> Tensor:
    """The same model with adapters of the two inner layers, each with a scale of 16 / rank."""

    def layer(x: Tensor, name: str) -> Tensor:
        return x @ dense[name].T + 8.0 * (x @ lora[f"{name}.down"]) @ lora[f"{name}.up"]

    h = dense["table"][ids]
    return (h + layer(torch.tanh(layer(h, "up")), "down")) @ dense["table"].T


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", fast_if(lambda name: name in ("uint8", "int4, blocks"), BASES))
def test_five_steps_follow_pytorch(name: str, batch: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    dense = {k: torch.from_numpy(v) for k, v in model_with(BASES[name], batch, path).items()}
    options: dict[str, Any] = {"loss": "mse", "train": []}
    lora = odtc.LoRA(rank=2, targets="up|down")
    artifact = odtc.compile(path, lora=lora, **options)
    trainer = artifact.trainer(threads=1)
    held = trainer.parameters()
    own = {
        f"{each.weight}.{which}": torch.tensor(held[tensor], requires_grad=True)
        for each in artifact.manifest.adapters
        for which, tensor in (("down", each.down), ("up", each.up))
    }
    rng = np.random.default_rng(3)
    ids = rng.integers(0, VOCABULARY, (batch, TOKENS))
    target = rng.standard_normal((batch, TOKENS, VOCABULARY)).astype(np.float32)
    optimizer = torch.optim.SGD(own.values(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(forward(torch.from_numpy(ids), dense, own), torch.from_numpy(target))
        loss.backward()
        optimizer.step()
        assert trainer.step(ids, target, lr=RATE) == pytest.approx(loss.item(), rel=1e-5)
    found = trainer.parameters()
    for each in artifact.manifest.adapters:
        for which, tensor in (("down", each.down), ("up", each.up)):
            expected = own[f"{each.weight}.{which}"].detach().numpy()
            np.testing.assert_allclose(found[tensor], expected, rtol=1e-4, atol=1e-6)


# On GPUs a vector of codes has one scale, or each of them its own, or rows end within one.
OF_GPUS = ("int8", "int4, blocks", "int4, a part of a block")


@pytest.mark.parametrize("target", fast_if("host-vulkan".__eq__, ["host-opencl", "host-vulkan"]))
@pytest.mark.parametrize("name", OF_GPUS)
def test_a_gpu_gives_the_same_losses_of_codes(name: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model_with(BASES[name], 2, path)
    rng = np.random.default_rng(3)
    ids = rng.integers(0, VOCABULARY, (2, TOKENS))
    y = rng.standard_normal((2, TOKENS, VOCABULARY)).astype(np.float32)
    losses = []
    for each in ("host-cpu", target):
        lora = odtc.LoRA(rank=2, targets="up|down")
        artifact = odtc.compile(path, target=each, loss="mse", lora=lora, train=[])
        trainer = artifact.trainer()
        losses.append([trainer.step(ids, y, lr=RATE) for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert artifact.memory.arena_bytes < VOCABULARY * WIDTH * 4
