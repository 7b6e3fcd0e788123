"""Queries whose keys are all masked: what the file says, in whichever way it masks.

PyTorch's softmax is the reference. Its flash attention on CPUs is none: of a row of lowest numbers
it keeps the largest and the logarithm of the sum as one number, in which the latter is lost, so
that each probability of its backward pass is one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import odtc
from odtc.core.errors import NumericError
from tests.fast import fast_if
from tests.numeric.conftest import relative_error, weight
from tests.numeric.plans.frozen_costs import model_of

SAMPLES, HEADS, WIDTH, WINDOW = 2, 2, 4, 3
FEATURES = HEADS * WIDTH
LOWEST = float(np.finfo(np.float32).min)
TARGETS = ("host-cpu", "host-opencl")
# From scores `$s` and conditions of which keys are seen to probabilities `$w`.
_ADDED = "$m = Where (seen, zero, {0}) $t = Add ($s, $m) $w = Softmax <axis = -1> ($t)"
_BOTH = (
    "$p = Where (there, zero, {0}) $n = Where (near, zero, {0}) $m = Add ($p, $n) "
    "$t = Add ($s, $m) $w = Softmax <axis = -1> ($t)"
)
KINDS: Mapping[str, str] = {
    "filled": "$t = Where (seen, $s, lowest) $w = Softmax <axis = -1> ($t)",
    "added": _ADDED.format("lowest"),
    "billion": _ADDED.format("billion"),
    # Keys that both masks hide have minus infinity, others the lowest number.
    "both": _BOTH.format("lowest"),
    # As PyTorch writes its attention with a boolean mask: zeros.
    "boolean": _ADDED.format("infinite").replace("$w =", "$u =")
    + " $i = IsNaN ($u) $w = Where ($i, zero, $u)",
}
NOT_NUMBERS: Mapping[str, str] = {
    "filled": "$t = Where (seen, $s, infinite) $w = Softmax <axis = -1> ($t)",
    "added": _ADDED.format("infinite"),
    "both": _BOTH.format("infinite"),
}


def weights(kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Projections of each kind's own."""
    names = [f"{kind}_{each}" for kind in kinds for each in "qkv"]
    return {name: weight(FEATURES, FEATURES, seed=seed) for seed, name in enumerate(names)}


def near(tokens: int) -> np.ndarray:
    """The window of each query."""
    ahead = np.arange(tokens)[None, :] - np.arange(tokens)[:, None]
    return (ahead <= 0) & (ahead > -WINDOW)


def written(kinds: Mapping[str, str], tokens: int, path: Path) -> Path:
    """An attention of each kind side by side, from features and a mask of padding."""
    nodes = "b = Cast <to = 9> (padding) there = Reshape (b, apart) seen = And (there, near) "
    for kind, text in kinds.items():
        own = ""
        for name in "qkv":
            axes = "[0, 2, 3, 1]" if name == "k" else "[0, 2, 1, 3]"
            own += f"${name}l = MatMul (x, ${name}) ${name}s = Reshape (${name}l, split) "
            own += f"${name}h = Transpose <perm = {axes}> (${name}s) "
        own += f"$r = MatMul ($qh, $kh) $s = Mul ($r, scale) {text} $a = MatMul ($w, $vh) "
        own += "$c = Transpose <perm = [0, 2, 1, 3]> ($a) $o = Reshape ($c, joined) "
        nodes += own.replace("$", f"{kind}_")
    nodes += f"y = Concat <axis = -1> ({', '.join(f'{kind}_o' for kind in kinds)})"
    ends = (
        f"(float[{SAMPLES}, {tokens}, {FEATURES}] x, int64[{SAMPLES}, {tokens}] padding) "
        f"=> (float[{SAMPLES}, {tokens}, {FEATURES * len(kinds)}] y)"
    )
    numbers = {"zero": 0, "lowest": LOWEST, "billion": -1e9, "infinite": -np.inf, "scale": 0.5}
    tensors = {
        "apart": np.array([SAMPLES, 1, 1, tokens]),
        "split": np.array([SAMPLES, tokens, HEADS, WIDTH]),
        "joined": np.array([SAMPLES, tokens, FEATURES]),
        "near": near(tokens),
        **{name: np.array(value, np.float32) for name, value in numbers.items()},
        **weights(kinds),
    }
    read = {name: value for name, value in tensors.items() if name in nodes}
    onnx.save(model_of(ends, nodes, read), path)
    return path


def data(tokens: int) -> dict[str, np.ndarray]:
    """Features, and padding that leaves some queries of the second sample no key."""
    padding = np.ones((SAMPLES, tokens), np.int64)
    padding[1, : tokens // 3] = padding[1, tokens // 2 :] = 0
    return {"x": weight(SAMPLES, tokens, FEATURES, seed=50), "padding": padding}


def reference(fed: Mapping[str, np.ndarray], held: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The output of `KINDS`, by PyTorch's softmax."""
    x, there = torch.from_numpy(fed["x"]), torch.from_numpy(fed["padding"] != 0)[:, None, None]
    window = torch.from_numpy(near(x.shape[1]))

    def hidden(seen: torch.Tensor, value: float) -> torch.Tensor:
        return torch.where(seen, 0.0, value)

    seen = there & window
    forms: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "filled": lambda s: torch.where(seen, s, LOWEST).softmax(-1),
        "added": lambda s: (s + hidden(seen, LOWEST)).softmax(-1),
        "billion": lambda s: (s + hidden(seen, -1e9)).softmax(-1),
        "both": lambda s: (s + (hidden(there, LOWEST) + hidden(window, LOWEST))).softmax(-1),
        "boolean": lambda s: torch.where(
            seen.any(-1, keepdim=True), (s + hidden(seen, LOWEST)).softmax(-1), 0.0
        ),
    }
    found = []
    for kind, probabilities in forms.items():
        q, k, v = (
            (x @ held[f"{kind}_{name}"]).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
            for name in "qkv"
        )
        result = probabilities(q @ k.transpose(2, 3) * 0.5) @ v
        found.append(result.transpose(1, 2).flatten(2))
    return torch.cat(found, -1)


def by_onnxruntime(path: Path, fed: Mapping[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(fed))[0])


# The longer has several blocks of keys, some of which a query sees nothing of.
@pytest.mark.parametrize(
    ("target", "tokens"), [*((target, 12) for target in TARGETS), ("host-cpu", 300)]
)
def test_results_and_gradients_are_those_of_the_file(
    target: str, tokens: int, tmp_path: Path
) -> None:
    path, fed = written(KINDS, tokens, tmp_path / "m.onnx"), data(tokens)
    trainer = odtc.compile(path, target, loss="mse").trainer()
    expected = by_onnxruntime(path, fed)
    np.testing.assert_allclose(trainer.evaluate(fed), expected, atol=1e-5)

    held = {name: torch.tensor(value, requires_grad=True) for name, value in weights(KINDS).items()}
    result = reference(fed, held)
    np.testing.assert_allclose(result.detach(), expected, atol=1e-5)
    labels = weight(*expected.shape, seed=51)
    loss = torch.nn.functional.mse_loss(result, torch.from_numpy(labels))
    loss.backward()
    # A rate that makes the change of a weight larger than its rounding.
    before = {name: value.copy() for name, value in trainer.parameters().items()}
    assert trainer.step(fed, labels, lr=100.0) == pytest.approx(loss.item(), rel=1e-5)
    for name, value in trainer.parameters().items():
        gradient = held[name].grad
        assert gradient is not None
        assert relative_error((before[name] - value) / 100, gradient.numpy()) < 1e-4, name


@pytest.mark.parametrize("target", fast_if(lambda target: target == "host-cpu", TARGETS))
def test_without_a_finite_number_they_are_nan_as_in_the_file(target: str, tmp_path: Path) -> None:
    path, fed = written(NOT_NUMBERS, 12, tmp_path / "m.onnx"), data(12)
    trainer = odtc.compile(path, target, loss="mse").trainer()
    found = trainer.evaluate(fed)
    expected = by_onnxruntime(path, fed)
    assert np.isnan(expected).any()
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # The first loss has nothing to do with the rate, and the error does not say so.
    with pytest.raises(NumericError, match=r"at step 1 .*\n.*hint: .* a mask of -inf hides"):
        trainer.step(fed, np.zeros_like(expected), lr=0.1)


def test_a_rate_is_blamed_where_the_first_loss_is_a_number(tmp_path: Path) -> None:
    path, fed = written({"added": KINDS["added"]}, 12, tmp_path / "m.onnx"), data(12)
    trainer = odtc.compile(path, loss="mse").trainer()
    labels = np.zeros((SAMPLES, 12, FEATURES), np.float32)
    assert np.isfinite(trainer.step(fed, labels, lr=1e38))
    with pytest.raises(NumericError, match=r"hint: .* a lower learning rate"):
        trainer.step(fed, labels, lr=1e38)
