"""Masks of attention: what of queries times keys is in the arena with each kind."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import odtc
from odtc.core.artifact.memory_plan import Kind
from tests.numeric.plans.frozen_costs import model_of

SAMPLES, HEADS, TOKENS, WIDTH, WINDOW = 2, 4, 96, 8, 16
FEATURES = HEADS * WIDTH
# Bytes of the probabilities of all heads, and of one mask for all heads of a sample.
ALL, MASK = 4 * SAMPLES * HEADS * TOKENS**2, 4 * SAMPLES * TOKENS**2
_LOW = np.float32(-1e9)
_ABOVE = np.triu(np.ones((TOKENS, TOKENS), bool), 1)
_OUTSIDE = _ABOVE | ~np.triu(np.ones((TOKENS, TOKENS), bool), 1 - WINDOW)
_PADDING = "f = Cast <to = 1> (padding) o = Sub (one, f) r = Mul (o, low) p = Reshape (r, apart) "
# The nodes that make the mask, `m`; and the bytes of what of queries times keys is in the arena.
MASKS: Mapping[str, tuple[str, int]] = {
    "causal": ("m = Identity (causal)", 0),
    "a sliding window": ("m = Identity (window)", 0),
    "padding": (f"{_PADDING} m = Identity (p)", 0),
    "causal and padding": (f"{_PADDING} m = Add (causal, p)", MASK),
    "a window and padding": (f"{_PADDING} m = Add (window, p)", MASK),
}


def written(kind: str, path: Path) -> None:
    """Two layers of attention, from features and a padding mask."""
    text = f"{MASKS[kind][0]} h0 = Identity (x) "
    for n in range(2):
        for name in "qkv":
            axes = "[0, 2, 3, 1]" if name == "k" else "[0, 2, 1, 3]"
            text += (
                f"{name}l{n} = MatMul (h{n}, {name}w{n}) {name}s{n} = Reshape ({name}l{n}, split) "
            )
            text += f"{name}{n} = Transpose <perm = {axes}> ({name}s{n}) "
        text += f"s{n} = MatMul (q{n}, k{n}) t{n} = Mul (s{n}, scale) u{n} = Add (t{n}, m) "
        text += f"w{n} = Softmax <axis = -1> (u{n}) a{n} = MatMul (w{n}, v{n}) "
        text += f"b{n} = Transpose <perm = [0, 2, 1, 3]> (a{n}) c{n} = Reshape (b{n}, joined) "
        text += f"h{n + 1} = Add (h{n}, c{n}) "
    shape = f"{SAMPLES}, {TOKENS}"
    ends = (
        f"(float[{shape}, {FEATURES}] x, int64[{shape}] padding) => (float[{shape}, {FEATURES}] y)"
    )
    tensors = {
        "split": np.array([SAMPLES, TOKENS, HEADS, WIDTH]),
        "joined": np.array([SAMPLES, TOKENS, FEATURES]),
        "apart": np.array([SAMPLES, 1, 1, TOKENS]),
        "one": np.array(1, np.float32),
        "low": np.array(_LOW),
        "scale": np.array(WIDTH**-0.5, np.float32),
        "causal": np.where(_ABOVE, _LOW, np.float32(0)),
        "window": np.where(_OUTSIDE, _LOW, np.float32(0)),
        **weights(),
    }
    body = f"{text} y = Identity (h2)"
    read = {name: value for name, value in tensors.items() if name in body.replace(",", " ")}
    onnx.save(model_of(ends, body, read), path)


def weights() -> dict[str, np.ndarray]:
    rng, shape = np.random.default_rng(1), (FEATURES, FEATURES)
    drawn = rng.standard_normal((6, *shape)).astype(np.float32) / FEATURES**0.5
    return dict(zip((f"{name}w{n}" for n in range(2) for name in "qkv"), drawn, strict=True))


def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Features, a mask that leaves out tokens of the second sample, and labels."""
    rng = np.random.default_rng(0)
    shape = (SAMPLES, TOKENS, FEATURES)
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    padding = np.ones((SAMPLES, TOKENS), np.int64)
    # Each query sees some key: of others, PyTorch's flash attention has other gradients.
    padding[1, 1::3] = 0
    return {"x": x, "padding": padding}, y


def theirs(
    kind: str, held: Mapping[str, torch.Tensor], fed: Mapping[str, np.ndarray]
) -> torch.Tensor:
    """The output, by PyTorch's own attention."""
    # Added, as in the model.
    mask = np.zeros((SAMPLES, 1, TOKENS, TOKENS), np.float32)
    mask += _LOW * (_ABOVE if "causal" in kind else _OUTSIDE if "window" in kind else False)
    if "padding" in kind:
        mask += _LOW * (fed["padding"] == 0)[:, None, None, :]
    h = torch.from_numpy(fed["x"])
    for n in range(2):
        q, k, v = (
            (h @ held[f"{name}w{n}"]).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
            for name in "qkv"
        )
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.from_numpy(mask))
        h = h + a.transpose(1, 2).flatten(2)
    return h


@pytest.mark.parametrize("kind", MASKS)
def test_no_probabilities_are_planned_and_losses_are_pytorchs(kind: str, tmp_path: Path) -> None:
    written(kind, tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", loss="mse")
    tensors = [t for t in artifact.memory.plan.tensors if t.kind is not Kind.WORKSPACE]
    squares = [t.nbytes for t in tensors if t.spec.shape[-2:] == (TOKENS, TOKENS)]
    # Heads and layers share a mask that depends on the batch.
    assert sum(squares) == MASKS[kind][1]
    assert max(t.nbytes for t in tensors) < ALL
    trainer, (fed, y) = artifact.trainer(threads=2), data()
    fed = {each.name: fed[each.name] for each in artifact.manifest.inputs}
    held = {name: torch.tensor(value, requires_grad=True) for name, value in weights().items()}
    optimizer = torch.optim.SGD(held.values(), lr=0.3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(theirs(kind, held, data()[0]), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(fed, y, lr=0.3) == pytest.approx(loss.item(), rel=1e-5)
