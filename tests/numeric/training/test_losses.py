"""Every loss with its options: value and derivative against PyTorch and by finite differences.

Both references are in double precision. The finite differences are of the loss's value, so they
share nothing with the derivative that odtc writes in closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from tvm import relax

import odtc
from odtc.backends.kernels.rows.cross_entropy import cross_entropy_rules
from odtc.core.specs import TensorSpec
from odtc.frontend.losses.loss import Loss
from tests.fast import examples
from tests.host import HOST, loaded

FEW = settings(max_examples=examples(12), deadline=None, derandomize=True)


def value_and_derivative(
    loss: Loss, output: np.ndarray, label: np.ndarray
) -> tuple[float, np.ndarray]:
    """Compiles the loss's part of the graph by TVM, with our kernels, and returns its results."""
    spec = loss.label(TensorSpec("y", output.shape))
    assert spec is not None
    x = relax.Var("x", relax.TensorType(output.shape, "float32"))
    t = relax.Var("t", relax.TensorType(spec.shape, spec.dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, t]):
        with builder.dataflow():
            results = [builder.emit_output(part) for part in loss.emit(builder, x, t)]
        builder.emit_func_output(relax.Tuple(results))
    target = HOST
    with target:
        module = relax.transform.LegalizeOps(cross_entropy_rules(16))(builder.finalize())
    machine = relax.VirtualMachine(loaded(module), tvm.cpu())
    arrays = output.astype(np.float32), label.astype(spec.dtype).reshape(spec.shape)
    value, derivative = machine["main"](*map(tvm.runtime.tensor, arrays))
    return float(value.numpy()), derivative.numpy()


@dataclass(frozen=True)
class Case:
    """A loss, what PyTorch has for it, and what both are given."""

    loss: Loss
    reference: Callable[[Tensor, Tensor], Tensor]
    output: np.ndarray
    label: np.ndarray


def check(case: Case) -> None:
    """Compares value and derivative with PyTorch's, and the derivative with finite differences."""
    value, derivative = value_and_derivative(case.loss, case.output, case.label)
    x = torch.tensor(case.output.astype(np.float32), dtype=torch.float64, requires_grad=True)
    t = torch.tensor(case.label)
    t = t.double() if t.is_floating_point() else t.long()
    expected = case.reference(x, t)
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=2e-5, abs=1e-6)
    assert x.grad is not None
    exact = x.grad.numpy()
    scale = max(float(np.abs(exact).max()), 1e-6)
    assert np.abs(derivative - exact).max() < 1e-5 * scale + 1e-7
    direction = torch.tensor(np.random.default_rng(5).standard_normal(case.output.shape))
    with torch.no_grad():
        above, below = (case.reference(x + h * direction, t) for h in (1e-6, -1e-6))
    slope = float(above - below) / 2e-6
    bound = 1e-4 * float(np.abs(exact).sum()) + 1e-6
    assert float((derivative * direction.numpy()).sum()) == pytest.approx(slope, abs=bound)


def normal(draw: st.DrawFn, shape: tuple[int, ...], scale: float = 3.0) -> np.ndarray:
    """Numbers of float32 that hypothesis need not shrink one by one."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def probabilities(scores: np.ndarray, axis: int) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis, keepdims=True))
    return (shares / shares.sum(axis, keepdims=True)).astype(np.float32)


reductions = st.sampled_from(["mean", "sum"])
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@st.composite
def class_cases(draw: st.DrawFn, likelihood: bool) -> Case:
    """Class numbers along axis 1 or the last one, with all options."""
    batch, classes = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rest = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    last = draw(st.booleans())
    shape = (batch, *rest, classes) if last else (batch, classes, *rest)
    weight = draw(st.none() | st.tuples(*[st.floats(0.25, 4)] * classes))
    ignored = draw(st.sampled_from([None, -100, 0, classes - 1]))
    reduction = draw(reductions)
    smoothing = 0.0 if likelihood else draw(st.sampled_from([0.0, 0.1, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    label = rng.integers(0, classes, (batch, *rest))
    if ignored is not None:
        label[rng.random(label.shape) < 0.3] = ignored
    # PyTorch gives nan where all are ignored.
    label.flat[0] = next((c for c in range(classes) if c != ignored), 0)
    if (label == ignored).all():
        ignored = None
    tensor = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    known = {"weight": weight, "ignore_index": ignored, "reduction": reduction}
    known |= {"axis": -1 if last else 1}
    theirs = {"weight": tensor, "ignore_index": -100 if ignored is None else ignored}
    theirs |= {"reduction": reduction}

    def reference(x: Tensor, t: Tensor) -> Tensor:
        x = x.movedim(-1, 1).contiguous() if last else x
        if likelihood:
            return F.nll_loss(x, t, **theirs)
        return F.cross_entropy(x, t, label_smoothing=smoothing, **theirs)

    output = normal(draw, shape)
    loss = (
        odtc.NLL(**known) if likelihood else odtc.CrossEntropy(label_smoothing=smoothing, **known)
    )
    return Case(loss, reference, output, label)


@FEW
@given(class_cases(likelihood=False))
def test_cross_entropy(case: Case) -> None:
    check(case)


@FEW
@given(class_cases(likelihood=True))
def test_nll(case: Case) -> None:
    check(case)


@st.composite
def soft_cases(draw: st.DrawFn) -> Case:
    batch, classes = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rest = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    weight = draw(st.none() | st.tuples(*[st.floats(0.25, 4)] * classes))
    smoothing, reduction = draw(st.sampled_from([0.0, 0.2])), draw(reductions)
    tensor = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    shape = (batch, classes, *rest)
    label = probabilities(normal(draw, shape), 1)
    loss = odtc.CrossEntropy(smoothing, None, weight, 1, True, reduction)
    return Case(
        loss,
        lambda x, t: F.cross_entropy(x, t, tensor, None, -100, None, reduction, smoothing),
        normal(draw, shape),
        label,
    )


@FEW
@given(soft_cases())
def test_cross_entropy_of_soft_labels(case: Case) -> None:
    check(case)


@st.composite
def element_cases(draw: st.DrawFn) -> Case:
    shape, reduction = draw(shapes), draw(reductions)
    number = draw(st.floats(0.25, 3))
    choices: dict[Loss, Callable[[Tensor, Tensor], Tensor]] = {
        odtc.MSE(reduction): lambda x, t: F.mse_loss(x, t, reduction=reduction),
        odtc.L1(reduction): lambda x, t: F.l1_loss(x, t, reduction=reduction),
        odtc.Huber(number, reduction): lambda x, t: F.huber_loss(
            x, t, reduction=reduction, delta=number
        ),
        odtc.SmoothL1(number, reduction): lambda x, t: F.smooth_l1_loss(
            x, t, reduction=reduction, beta=number
        ),
    }
    loss = draw(st.sampled_from(list(choices)))
    return Case(loss, choices[loss], normal(draw, shape), normal(draw, shape))


@FEW
@given(element_cases())
def test_errors_of_elements(case: Case) -> None:
    check(case)


@st.composite
def binary_cases(draw: st.DrawFn) -> Case:
    shape, reduction = draw(shapes), draw(reductions)
    weight = draw(
        st.none() | st.tuples(st.floats(0.25, 4)) | st.tuples(*[st.floats(0.25, 4)] * shape[-1])
    )
    tensor = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    label = (
        normal(draw, shape) > 0 if draw(st.booleans()) else probabilities(normal(draw, shape), 0)
    )
    return Case(
        odtc.BCEWithLogits(weight, reduction),
        lambda x, t: F.binary_cross_entropy_with_logits(
            x, t, reduction=reduction, pos_weight=tensor
        ),
        normal(draw, shape),
        label.astype(np.float32),
    )


@FEW
@given(binary_cases())
def test_binary_cross_entropy(case: Case) -> None:
    check(case)


@st.composite
def divergence_cases(draw: st.DrawFn) -> Case:
    shape, log_target = draw(shapes), draw(st.booleans())
    reduction = draw(st.sampled_from(["batchmean", "mean", "sum"]))
    label = probabilities(normal(draw, shape), -1)
    if not log_target:
        label.flat[0] = 0.0
    return Case(
        odtc.KLDiv(log_target, reduction),
        lambda x, t: F.kl_div(x, t, reduction=reduction, log_target=log_target),
        np.log(probabilities(normal(draw, shape), -1)),
        np.log(label) if log_target else label,
    )


@FEW
@given(divergence_cases())
def test_divergence(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_extreme_logits(axis: int, smoothing: float) -> None:
    output = np.array([[100, -100, 0], [-100, 100, 100], [3e38, -3e38, 0]], np.float32)
    if smoothing:
        output = output[:2]
    label = np.array([1, 0, 0])[: len(output)]
    check(
        Case(
            odtc.CrossEntropy(smoothing, axis=axis),
            lambda x, t: F.cross_entropy(x, t, label_smoothing=smoothing),
            output,
            label,
        )
    )


def test_a_class_that_is_masked_out() -> None:
    output = np.array([[1, 2, -np.inf], [0, -np.inf, 3]], np.float32)
    label = np.array([0, 2])
    value, derivative = value_and_derivative(odtc.CrossEntropy(), output, label)
    x = torch.tensor(output, dtype=torch.float64, requires_grad=True)
    expected = F.cross_entropy(x, torch.tensor(label))
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-5)
    assert x.grad is not None
    np.testing.assert_allclose(derivative, x.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("weight", [None, (0.5,)])
def test_binary_cross_entropy_of_extreme_logits(weight: tuple[float, ...] | None) -> None:
    """At 0 the derivative is one half off either label; far out the loss is tiny or large."""
    output = np.array([[0, 0, 0, 100, 100, -100, -100, 20, 5, 3e38]], np.float32)
    label = np.array([[0, 1, 0.5, 0, 1, 0, 1, 1, 1, 1]], np.float32)
    tensor = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    loss = odtc.BCEWithLogits(weight, "sum")

    def reference(x: Tensor, t: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x, t, reduction="sum", pos_weight=tensor)

    check(Case(loss, reference, output, label))
    # What is left of a loss that is nearly 0, with all its digits.
    for logit in (4.0, 8.0, 16.0, 40.0):
        x, t = np.full((1, 1), logit, np.float32), np.ones((1, 1), np.float32)
        value, _ = value_and_derivative(odtc.BCEWithLogits(), x, t)
        assert value == pytest.approx(np.log1p(np.exp(-logit)), rel=2e-6)


@pytest.mark.parametrize("loss", [odtc.CrossEntropy, odtc.NLL])
@pytest.mark.parametrize("weight", [None, (0.0, 1.0, 1.0)])
def test_without_any_label_that_counts_the_loss_is_0(
    loss: type, weight: tuple[float, ...] | None
) -> None:
    label = np.full(4, -1) if weight is None else np.zeros(4, int)
    output = np.random.default_rng(0).standard_normal((4, 3))
    value, derivative = value_and_derivative(loss(ignore_index=-1, weight=weight), output, label)
    assert value == 0.0
    assert not derivative.any()
