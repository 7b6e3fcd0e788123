"""Gradients where functions bend, tie or end: exactly there they are those of PyTorch."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional

import odtc
from tests.numeric.conftest import ints
from tests.numeric.side_by_side import check, gradients, side_by_side

# Where the functions below bend, on both sides of it, and far out.
POINTS = np.array(
    [-90, -30, -6, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 30, 90, -1e-6, 1e-6], np.float32
)
# Ends of the ranges below, and points between, which whole numbers are added to exactly.
ENDS = np.array([-6, -3, -1, -0.5, 0, 0.5, 1, 3, 6], np.float32)
UNARY = {
    "abs": "$y = Abs ($h)",
    "clip": "$y = Clip ($h, low, high)",
    "celu": "$y = Celu <alpha=2.0> ($h)",
    "elu": "$y = Elu ($h)",
    "erf": "$y = Erf ($h)",
    "gelu": "$y = Gelu ($h)",
    "gelu_tanh": '$y = Gelu <approximate="tanh"> ($h)',
    "hard_sigmoid": "$y = HardSigmoid <alpha=0.16666667> ($h)",
    "hard_swish": "$y = HardSwish ($h)",
    "leaky_relu": "$y = LeakyRelu ($h)",
    "mish": "$y = Mish ($h)",
    "prelu": "$y = PRelu ($h, slope)",
    "relu": "$y = Relu ($h)",
    "relu6": "$y = Clip ($h, zero, six)",
    "round": "$a = Round ($h) $y = Mul ($a, $h)",
    "selu": "$y = Selu ($h)",
    "shrink": "$y = Shrink ($h)",
    "sigmoid": "$y = Sigmoid ($h)",
    "sign": "$a = Sign ($h) $y = Mul ($a, $h)",
    "softplus": "$y = Softplus ($h)",
    "softsign": "$y = Softsign ($h)",
    "swish": "$a = Sigmoid ($h) $y = Mul ($a, $h)",
    "tanh": "$y = Tanh ($h)",
    "thresholded": "$y = ThresholdedRelu ($h)",
    "where": "$c = Less ($h, zero) $y = Where ($c, $h, zero)",
}
NUMBERS = {
    "low": np.float32(-0.5),
    "high": np.float32(0.5),
    "slope": np.array([0.3], np.float32),
    "zero": np.float32(0),
    "six": np.float32(6),
}


def test_activations_where_they_bend(saved) -> None:
    model = side_by_side(UNARY, (1, len(POINTS)), constants=NUMBERS, scale=1e-4, opset=20)
    check(model, POINTS[None], saved)


class Bends(nn.Module):
    """Functions that are one operator in ONNX, each of a parameter of its own."""

    FUNCTIONS: ClassVar[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
        "clamp": lambda h: h.clamp(-1, 1),
        "clamp_from_0_to_6": lambda h: h.clamp(0, 6),
        "clamp_from_below": lambda h: h.clamp(min=0),
        "clamp_from_above": lambda h: h.clamp(max=3),
        "hardtanh": functional.hardtanh,
        "hardtanh_of_others": lambda h: functional.hardtanh(h, -0.5, 3),
        "relu6": functional.relu6,
        "maximum": lambda h: torch.maximum(h, torch.zeros(1)),
        "minimum": lambda h: torch.minimum(h, torch.full((1,), 3.0)),
        "amax": lambda h: h.clamp(0, 1).amax(-1, keepdim=True) * torch.ones(len(ENDS)),
    }

    def __init__(self) -> None:
        super().__init__()
        for number, name in enumerate(self.FUNCTIONS):
            # The exporter would take equal parameters, and with them these sums, for one.
            self.register_parameter(name, nn.Parameter(torch.full((1, len(ENDS)), float(number))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = [
            apply(x + getattr(self, name) - number)
            for number, (name, apply) in enumerate(self.FUNCTIONS.items())
        ]
        return torch.stack(results).sum(0) * 1e-2


@pytest.mark.parametrize("optimize", [True, False])
def test_functions_that_the_file_says_beside_a_node(optimize: bool, tmp_path: Path) -> None:
    """Clip is hardtanh or a clamp, Max a clamp or a maximum: their gradients differ in a point."""
    module, x, path = Bends(), torch.from_numpy(ENDS[None]), tmp_path / "m.onnx"
    torch.onnx.export(
        module, (x,), path, dynamo=True, external_data=False, optimize=optimize, verbose=False
    )
    trainer = odtc.compile(path, loss="mse{reduction=sum}", train=[*Bends.FUNCTIONS]).trainer()
    ((module(x) - 1) ** 2).sum().backward()
    before = trainer.parameters()
    trainer.step(ENDS[None], np.ones_like(ENDS[None]), lr=1.0)
    moved = {name: before[name] - after for name, after in trainer.parameters().items()}
    for name, value in module.named_parameters():
        assert value.grad is not None
        np.testing.assert_allclose(moved[name], value.grad, rtol=1e-3, atol=1e-5, err_msg=name)


def test_ties_and_zeros_of_two_operands(saved) -> None:
    nodes = {
        "max": "$y = Max ($h, $w)",
        "min": "$y = Min ($h, $w)",
        "max_three": "$y = Max ($h, $w, $v)",
        "power": "$a = Abs ($h) $y = Pow ($a, $e)",
        "squared": "$y = Pow ($h, two)",
        "cubed": "$y = Pow ($h, three)",
        "prelu": "$y = PRelu ($h, $w)",
    }
    parameters = {
        "w": np.array([-1, 0, 1, 0, 0.5, 2, 0, 1], np.float32),
        "v": np.array([-1, 1, 1, 0, 0.5, 2, 3, 0], np.float32),
        "e": np.array([2, 0, 1, 3, 0, 2, 2, 1], np.float32),
    }
    constants = {"two": np.float32(2), "three": np.float32(3)}
    x = np.array([[-1, 0, 1, 0, 0.5, 0, 2, 0]], np.float32)
    check(side_by_side(nodes, x.shape, constants=constants, parameters=parameters), x, saved)


def test_reductions_of_ties_zeros_and_large_numbers(saved) -> None:
    rows = {
        "max": "$r = ReduceMax ($h, axes)",
        "min": "$r = ReduceMin ($h, axes)",
        "product": "$r = ReduceProd ($h, axes)",
        "norm": "$r = ReduceL2 ($h, axes)",
        "absolute": "$r = ReduceL1 ($h, axes)",
        "log_sum_exp": "$r = ReduceLogSumExp ($h, axes)",
        "softmax": "$r = Softmax ($h)",
        "log_softmax": "$r = LogSoftmax ($h)",
    }
    nodes = {name: f"{node} $y = Add ($r, x)" for name, node in rows.items()}
    x = np.array(
        [[[1, 1, -2], [0, 3, 2], [0, 0, 4], [0, 0, 0], [90, -90, 89], [2, 2, 2]]], np.float32
    )
    model = side_by_side(nodes, x.shape, constants={"axes": ints(-1)}, scale=1e-2)
    check(model, x, saved)


def test_grids_on_elements_at_the_border_and_outside(saved) -> None:
    """Between two polynomials, and where a position is held or turned."""
    modes = {"linear": ("zeros", "border", "reflection"), "cubic": ("zeros", "reflection")}
    nodes = {
        f"{mode}_{padding}_{aligned}": "$g = Reshape ($h, grid) $y = GridSample "
        f'<mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}> ($w, $g)'
        for mode, paddings in modes.items()
        for padding in paddings
        for aligned in (0, 1)
    }
    # On three columns and five rows.
    columns, rows = [-3, -1, 0, 1, 2], [-2, -1, -0.5, 0, 0.5, 1, 3]
    x = np.array([[column, row] for column in columns for row in rows], np.float32)[None]
    image = np.random.default_rng(0).standard_normal((1, 2, 5, 3)).astype(np.float32)
    constants = {"grid": ints(1, x.shape[1], 1, 2)}
    parameters = {"w": image}
    model = side_by_side(
        nodes, x.shape, constants=constants, parameters=parameters, scale=1e-2, opset=20
    )
    check(model, x, saved)


def test_scatters_of_ties_and_zeros(saved) -> None:
    """Several updates to an element, among them zeros and equal ones; and some that get none."""
    nodes = {
        reduction: f'$y = ScatterElements <axis = 1, reduction = "{reduction}"> ($h, i, $w)'
        for reduction in ("mul", "max", "min")
    }
    x = np.array([[1, 0, 3, 2, 5, -1], [0, 2, 0, -3, 2, 2]], np.float32)
    indices = np.array([[0, 0, 1, 2, 3, 3, 3], [0, 0, 1, 1, 1, 4, -1]])
    updates = np.array([[2, 0, 0, 3, 0, 0, 2], [3, 0, 2, 2, -1, 2, 2]], np.float32)
    model = side_by_side(
        nodes, x.shape, constants={"i": indices}, parameters={"w": updates}, scale=0.1
    )
    check(model, x, saved)


def test_products_along_an_axis_with_zeros(saved) -> None:
    nodes = {
        "plain": "$y = CumProd ($h, axis)",
        "both": "$y = CumProd <exclusive = 1, reverse = 1> ($h, axis)",
    }
    x = np.array([[2, 0, 3, -1, 2], [0, 1, 0, 2, 1], [1, 2, 3, 2, 0]], np.float32)
    model = side_by_side(nodes, x.shape, constants={"axis": np.array(1)}, scale=0.1, opset=26)
    check(model, x, saved)


def test_determinants_of_singular_matrices(saved) -> None:
    """Of rank n - 1 the gradient is that of the minors; of less it is zero."""
    matrices = np.random.default_rng(0).standard_normal((4, 4, 4))
    matrices[0, :, 0] = 0
    matrices[1, 2] = 2 * matrices[1, 0]
    matrices[2, :2] = 0
    x = matrices[None].astype(np.float32)
    nodes = {"det": "$d = Det ($h) $y = Mul ($d, weights)"}
    weights = np.array([1, -2, 3, 0.5], np.float32)
    model = side_by_side(nodes, x.shape, constants={"weights": weights}, scale=1e-2)
    logits = np.linalg.det(matrices) * weights * 1e-2
    back = (np.exp(logits) / np.exp(logits).sum() - (np.arange(4) == 0)) * weights * 1e-2
    minors = [
        [np.delete(np.delete(each, i, 0), j, 1) for i in range(4) for j in range(4)]
        for each in x[0].astype(np.float64)
    ]
    signs = (-1.0) ** np.add.outer(range(4), range(4))
    expected = np.linalg.det(minors).reshape(4, 4, 4) * signs * back[:, None, None]
    found = gradients(model, x, saved)["det_p"][0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def masked(parameters: dict[str, np.ndarray], mask: np.ndarray) -> onnx.ModelProto:
    node = (
        "$a = Mul ($h, $w) $m = Where (c, zero, minus) $b = Add ($a, $m) $s = Softmax ($b) "
        "$n = IsNaN ($s) $y = Where ($n, zero, $s)"
    )
    constants = {"c": mask, "zero": np.float32(0), "minus": np.float32(-np.inf)}
    return side_by_side({"attend": node}, (2, 3, 4), constants=constants, parameters=parameters)


def test_a_masked_softmax_has_a_finite_gradient(saved) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    parameters = {"w": np.ones((3, 4), np.float32)}
    mask = np.tril(np.ones((3, 4), bool))
    check(masked(parameters, mask), x, saved)


def test_a_row_that_is_masked_as_a_whole_passes_nothing(saved) -> None:
    """As PyTorch's attention has it; its autograd of the operators one by one gives NaN."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    mask = np.tril(np.ones((3, 4), bool))
    mask[1] = False
    found = gradients(masked({"w": np.ones((3, 4), np.float32)}, mask), x, saved)["attend_p"]
    assert np.isfinite(found).all()
    assert not found[0, 1].any()
    assert found[0, 2].any()


def test_a_sum_of_exponentials_of_nothing_passes_nothing(saved) -> None:
    """Where all is minus infinity, the difference to the result is none."""
    node = "$a = Add ($h, m) $r = ReduceLogSumExp ($a, axes) $e = Exp ($r) $y = Add ($e, x)"
    mask = np.triu(np.full((3, 4), -np.inf, np.float32), 1)
    mask[1] = -np.inf
    constants = {"m": mask, "axes": ints(-1)}
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    model = side_by_side({"sum": node}, x.shape, constants=constants)
    # The mask is infinite as it is, and no weight may be: it is frozen.
    compiled = odtc.compile(saved(model), train=["sum_p"], batch_axis={"x": 0})
    trainer = compiled.trainer()
    before = trainer.parameters()["sum_p"]
    trainer.step(x, np.zeros(2, int), 1.0)
    found = before - trainer.parameters()["sum_p"]
    assert np.isfinite(found).all()
    assert not found[0, 1].any()
    assert found[0, 2].any()
