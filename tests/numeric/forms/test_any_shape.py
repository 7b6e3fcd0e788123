"""Random broadcasts, axes and ranks: gradients are those of PyTorch for all of them."""

from pathlib import Path

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fast import examples
from tests.numeric.conftest import ints
from tests.numeric.side_by_side import check, side_by_side

FEW = settings(
    max_examples=examples(4),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SIZES = st.integers(1, 4)
BINARY = {
    "add": "$y = Add ($h, $w)",
    "sub": "$y = Sub ($w, $h)",
    "mul": "$y = Mul ($h, $w)",
    "div": "$a = Exp ($w) $y = Div ($h, $a)",
    "mod": "$a = Exp ($w) $y = Mod <fmod=1> ($h, $a)",
    "max": "$y = Max ($h, $w)",
    "min": "$y = Min ($w, $h)",
    "mean": "$y = Mean ($h, $w)",
    "pow": "$a = Exp ($h) $y = Pow ($a, $w)",
    "where": "$c = Less ($h, $w) $y = Where ($c, $h, $w)",
}
REDUCTIONS = "L1 L2 LogSumExp Max Mean Min Prod Sum SumSquare".split()


@st.composite
def broadcasts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape of at least two axes, and one that broadcasts to it."""
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    kept = shape[draw(st.integers(0, len(shape) - 1)) :]
    return shape, tuple(draw(st.sampled_from((1, size))) for size in kept)


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int], int]:
    """A shape, axes of it, and whether they are kept."""
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    signed = [axis - len(shape) if draw(st.booleans()) else axis for axis in axes]
    return shape, signed, draw(st.integers(0, 1))


@st.composite
def products(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two operands of a product of matrices or vectors; the first has a batch."""
    rows, inner, columns = draw(SIZES), draw(SIZES), draw(SIZES)
    batch = draw(st.lists(SIZES, min_size=1, max_size=2))
    other = [draw(st.sampled_from((1, size))) for size in batch[draw(st.integers(0, 2)) :]]
    right = draw(st.sampled_from(([inner], [inner, columns], [*other, inner, columns])))
    return (*batch, rows, inner), tuple(right)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def saved_in(folder: Path):
    def save(model: onnx.ModelProto) -> Path:
        onnx.save(model, folder / "model.onnx")
        return folder / "model.onnx"

    return save


@FEW
@given(broadcasts())
def test_binary_operators(tmp_path: Path, shapes) -> None:
    shape, other = shapes
    model = side_by_side(BINARY, shape, parameters={"w": values(*other, seed=1)}, scale=0.2)
    check(model, values(*shape), saved_in(tmp_path))


@FEW
@given(reductions())
def test_reductions(tmp_path: Path, reduction) -> None:
    shape, axes, keepdims = reduction
    gone = {axis % len(shape) for axis in axes} or range(len(shape))
    kept = [1 if axis in gone else size for axis, size in enumerate(shape)]
    nodes = {
        name: f"$r = Reduce{name} <keepdims={keepdims}> ($h, axes) $k = Reshape ($r, kept) "
        "$y = Mul ($k, x)"
        for name in REDUCTIONS
    }
    constants = {"axes": ints(*axes), "kept": ints(*kept)}
    model = side_by_side(nodes, shape, constants=constants, scale=0.2)
    check(model, values(*shape), saved_in(tmp_path))


@FEW
@given(products())
def test_matrix_products(tmp_path: Path, shapes) -> None:
    shape, right = shapes
    model = side_by_side(
        {"product": "$y = MatMul ($h, $w)"}, shape, parameters={"w": values(*right, seed=1)}
    )
    check(model, values(*shape), saved_in(tmp_path))


@FEW
@given(st.lists(SIZES, min_size=2, max_size=4), st.data())
def test_softmax_along_any_axis(tmp_path: Path, shape, data) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    opset = data.draw(st.sampled_from((11, 18)))
    nodes = {
        "softmax": f"$y = Softmax <axis={axis}> ($h)",
        "log_softmax": f"$y = LogSoftmax <axis={axis}> ($h)",
    }
    model = side_by_side(nodes, tuple(shape), opset=opset)
    check(model, values(*shape), saved_in(tmp_path))


UNARY = (
    "Abs Asinh Atan Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Mish Neg "
    "Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Tan Tanh ThresholdedRelu"
).split()


def test_whole_vectors(tmp_path: Path) -> None:
    """A kernel of a round size is vectorised, and not every function has a form for vectors."""
    nodes = {name.lower(): f"$a = {name} ($h) $y = Mul ($a, $h)" for name in UNARY}
    nodes |= {
        "acos": "$s = Mul ($h, tenth) $y = Acos ($s)",
        "acosh": "$s = Exp ($h) $t = Add ($s, one) $y = Acosh ($t)",
        "asin": "$s = Mul ($h, tenth) $y = Asin ($s)",
        "atanh": "$s = Mul ($h, tenth) $y = Atanh ($s)",
        "log": "$s = Exp ($h) $t = Add ($s, one) $y = Log ($t)",
        "mod": "$y = Mod <fmod=1> ($h, one)",
        "pow": "$s = Exp ($h) $y = Pow ($s, $h)",
        "reciprocal": "$s = Exp ($h) $y = Reciprocal ($s)",
        "sqrt": "$s = Exp ($h) $y = Sqrt ($s)",
        "isnan": "$s = Log ($h) $c = IsNaN ($s) $y = Where ($c, $h, one)",
        "isinf": "$s = Exp ($h) $c = IsInf ($s) $y = Where ($c, one, $h)",
    }
    constants = {"tenth": np.float32(0.1), "one": np.float32(1)}
    model = side_by_side(nodes, (2, 1024), constants=constants, scale=0.05, opset=20)
    check(model, values(2, 1024), saved_in(tmp_path))
