"""Which tensors of a file are parameters where it says nothing of them, and what is noted."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.trained.selection import select
from odtc.frontend.weights.evidence.values import pattern

RNG = np.random.default_rng(0)
MAKERS = {"torch": "pytorch", "keras": "tf2onnx", "hand": ""}
W = RNG.standard_normal((8, 8))
IMAGE = [2, 4, 9, 9]
BYTES = {"bytes"}


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def graph_of(
    nodes: str, tensors: dict[str, np.ndarray], *, shape: list[int], maker: str, **options
) -> Graph:
    """`x -> nodes -> y`, as one of the exporters writes it."""
    arrays = {k: v if k in BYTES else np.asarray(v, np.float32) for k, v in tensors.items()}
    held = [numpy_helper.from_array(value, name) for name, value in arrays.items()]
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        held,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name=MAKERS[maker],
    )
    if "said" in options:
        helper.set_model_props(model, {"odtc.weights": options.pop("said")})
    return specialize(model, **options)


POSITIONS = np.arange(6)[:, None] / 100 ** (np.arange(0, 8, 2) / 8)
SINES = np.stack([np.sin(POSITIONS), np.cos(POSITIONS)], -1).reshape(6, 8)
MEL = np.maximum(0, 1 - np.abs(np.arange(24)[:, None] - np.arange(2, 24, 3)) / 3)
DFT = np.cos(2 * np.pi * np.outer(np.arange(5), np.arange(16)) / 16) * np.hanning(17)[:16]
ANCHORS = np.stack(np.meshgrid(np.arange(3) + 0.5, np.arange(3) + 0.5))
NORMALIZED = (
    "m = ReduceMean <axes = [-1]> (h) c = Sub (h, m) s = Mul (c, c)"
    " v = ReduceMean <axes = [-1]> (s) e = Add (v, eps) d = Sqrt (e) n = Div (c, d) "
)
RMS = (
    "s = Mul (h, h) v = ReduceMean <axes = [-1]> (s) e = Add (v, eps) d = Sqrt (e)"
    " i = Reciprocal (d) n = Mul (h, i) "
)
KERAS = (
    "s = Mul (h, h) v = ReduceMean <axes = [-1]> (s) e = Add (v, eps) d = Sqrt (e)"
    " i = Reciprocal (d) g = Mul (i, gamma) n = Mul (h, g) o = Mul (v, g) b = Sub (beta, o)"
    " y = Add (n, b)"
)
ROW = [2, 8]
# Single numbers that exporters write down, and what no node reads together with data.
QUIET = {"eps", "one", "two", "u", "v"}
# Name of a case: maker, nodes, shape of x, what is trained, what is not.
CASES = {
    "dense": ("hand", "p = MatMul (x, w) y = Add (p, b)", ROW, {"w": W, "b": draw(8)}, {}),
    "dense of one output": (
        "hand",
        "p = MatMul (x, w) y = Add (b, p)",
        ROW,
        {"w": draw(8, 1), "b": draw(1)},
        {},
    ),
    "transposed weight": (
        "hand",
        "t = Transpose <perm = [1, 0]> (w) p = MatMul (x, t) y = Add (p, b)",
        ROW,
        {"w": draw(5, 8), "b": draw(5)},
        {},
    ),
    "convolution and slopes": (
        "hand",
        "c = Conv (x, w, b) y = PRelu (c, s)",
        IMAGE,
        {"w": draw(3, 4, 3, 3), "b": draw(3), "s": draw(3, 1, 1)},
        {},
    ),
    "image mean and deviation": (
        "torch",
        "a = Sub (x, mean) h = Div (a, std) y = Conv (h, w)",
        IMAGE,
        {"w": draw(3, 4, 3, 3)},
        {"mean": draw(1, 4, 1, 1), "std": draw(1, 4, 1, 1)},
    ),
    "scale and shift of the input": (
        "hand",
        "a = Mul (x, scale) h = Add (a, shift) y = Conv (h, w)",
        IMAGE,
        {"w": draw(3, 4, 3, 3)},
        {"scale": draw(1, 4, 1, 1), "shift": draw(1, 4, 1, 1)},
    ),
    "layer normalisation in nodes": (
        "hand",
        f"h = MatMul (x, w) {NORMALIZED} k = Mul (n, gamma) y = Add (k, beta)",
        ROW,
        {"w": W, "gamma": np.ones(8), "beta": np.zeros(8)},
        {"eps": 1e-5},
    ),
    "rms normalisation in nodes": (
        "hand",
        f"h = MatMul (x, w) {RMS} y = Mul (n, gamma)",
        ROW,
        {"w": W, "gamma": draw(8)},
        {"eps": 1e-5},
    ),
    "layer normalisation as keras has it": (
        "keras",
        f"h = MatMul (x, w) {KERAS}",
        ROW,
        {"w": W, "gamma": draw(8), "beta": draw(8)},
        {"eps": 1e-5},
    ),
    "scale of a layer": (
        "torch",
        "h = MatMul (x, w) s = Mul (h, gamma) y = Add (s, x)",
        ROW,
        {"w": W, "gamma": draw(8)},
        {},
    ),
    "scale and shift of a sum": (
        "torch",
        "h = MatMul (x, w) r = Add (h, x) s = Mul (r, scale) t = Add (s, shift) y = Relu (t)",
        ROW,
        {"w": W, "scale": draw(8), "shift": draw(8)},
        {},
    ),
    "mean and deviation of the output": (
        "torch",
        "h = MatMul (x, w) r = Add (h, x) s = Mul (r, std) y = Add (s, mean)",
        ROW,
        {"w": W},
        {"std": draw(8), "mean": draw(8)},
    ),
    "deviation of the output": (
        "torch",
        "h = MatMul (x, w) s = Mul (h, std) y = Identity (s)",
        ROW,
        {"w": W},
        {"std": draw(8)},
    ),
    "number with a module's name": (
        "torch",
        "h = MatMul (x, w) e = Exp (logit_scale) y = Mul (h, e)",
        ROW,
        {"w": W, "logit_scale": 2.66},
        {},
    ),
    "numbers of the program": (
        "hand",
        "h = MatMul (x, w) a = Mul (h, half) b = Add (a, one) y = Pow (b, two)",
        ROW,
        {"w": W},
        {"half": 0.5, "one": 1.0, "two": [2.0]},
    ),
    "learned positions": (
        "torch",
        "h = MatMul (x, w) p = Add (h, pos_embed) y = Relu (p)",
        [2, 6, 8],
        {"w": W, "pos_embed": draw(1, 6, 8)},
        {},
    ),
    "sinusoidal positions": (
        "torch",
        "h = MatMul (x, w) y = Add (h, pe)",
        [2, 6, 8],
        {"w": W},
        {"pe": SINES[None]},
    ),
    "rotary tables": (
        "torch",
        "h = MatMul (x, w) c = Mul (h, cosines) r = Neg (h) s = Mul (r, sines) y = Add (c, s)",
        [2, 6, 8],
        {"w": W},
        {"cosines": np.cos(POSITIONS).repeat(2, 1), "sines": np.sin(POSITIONS).repeat(2, 1)},
    ),
    "class token": (
        "torch",
        "h = MatMul (x, w) y = Concat <axis = 0> (cls_token, h)",
        [2, 1, 8],
        {"w": W, "cls_token": draw(1, 1, 8)},
        {},
    ),
    "mask": (
        "torch",
        "h = MatMul (x, w) y = Add (h, mask)",
        [8, 8],
        {"w": W},
        {"mask": np.where(np.tri(8), 0, -np.inf)},
    ),
    "finite mask": (
        "torch",
        "h = MatMul (x, w) y = Add (h, mask)",
        [8, 8],
        {"w": W},
        {"mask": np.where(np.tri(8), 0, -100.0)},
    ),
    "filter bank": (
        "hand",
        "h = MatMul (x, mel) y = MatMul (h, w)",
        [2, 24],
        {"w": W},
        {"mel": MEL},
    ),
    "fourier basis": (
        "hand",
        "h = Conv (x, basis) y = Conv (h, w)",
        [2, 1, 64],
        {"w": draw(3, 5, 3)},
        {"basis": DFT[:, None]},
    ),
    "expectation over bins": (
        "torch",
        "h = Conv (x, w) s = Softmax <axis = 1> (h) y = Conv (s, dfl)",
        IMAGE,
        {"w": draw(16, 4, 1, 1)},
        {"dfl": np.arange(16).reshape(1, 16, 1, 1)},
    ),
    "anchors and strides": (
        "torch",
        "h = Conv (x, w) a = Add (anchors, h) y = Mul (a, strides)",
        [2, 4, 3, 3],
        {"w": draw(2, 4, 1, 1)},
        {"anchors": ANCHORS[None], "strides": np.full((1, 1, 3, 3), 8.0)},
    ),
    "blur": (
        "hand",
        "h = Conv <group = 4> (x, blur) y = Conv (h, w)",
        IMAGE,
        {"w": draw(3, 4, 3, 3)},
        {"blur": np.tile(np.outer([1, 2, 1], [1, 2, 1]) / 16, (4, 1, 1, 1))},
    ),
    "normalisation without parameters": (
        "torch",
        "n = InstanceNormalization (x, onnx_9, onnx_10) y = Conv (n, w)",
        IMAGE,
        {"w": draw(3, 4, 3, 3)},
        {},
    ),
    "spectral norm": (
        "torch",
        "a = MatMul (w, v) s = MatMul (u, a) q = Div (w, s) y = MatMul (x, q)",
        ROW,
        {"w": W},
        {"u": draw(8), "v": draw(8)},
    ),
    "weight norm": (
        "torch",
        "l = ReduceL2 <axes = [1]> (v) d = Div (v, l) q = Mul (d, g) y = MatMul (x, q)",
        ROW,
        {"v": W, "g": draw(8, 1)},
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_parameters_by_their_use(case: str) -> None:
    maker, nodes, shape, trained, still = CASES[case]
    made_up = {}
    if "onnx_9" in nodes:
        nodes = nodes.replace("onnx_9", "val_9").replace("onnx_10", "val_10")
        made_up = {"val_9": np.ones(4), "val_10": np.zeros(4)}
    graph = graph_of(nodes, {**trained, **still, **made_up}, shape=shape, maker=maker)
    assert graph.parameters.keys() == trained.keys()
    noted = {name for note in graph.notes for name in note.partition(":")[0].split(", ")}
    assert noted & still.keys() == still.keys() - QUIET


def test_states_of_recurrent_layers_are_no_parameters() -> None:
    tensors = {"w": draw(1, 12, 8), "r": draw(1, 12, 4), "b": draw(1, 24), "h0": draw(1, 3, 4)}
    nodes = "y = GRU <hidden_size = 4> (x, w, r, b, , h0)"
    graph = graph_of(nodes, tensors, shape=[5, 3, 8], maker="hand")
    assert graph.parameters.keys() == {"w", "r", "b"}


STARTS = {
    "normal": draw(40, 40),
    "uniform": RNG.uniform(-0.1, 0.1, (64, 1, 3, 3)),
    "non-negative": RNG.uniform(0, 1, (16, 16)),
    "zeros": np.zeros((9, 9)),
    "ternary": RNG.integers(-1, 2, (16, 16)),
    "row": draw(16),
    "identity": np.eye(12),
}


@pytest.mark.parametrize("start", STARTS)
def test_what_layers_start_from_looks_like_no_pattern(start: str) -> None:
    assert pattern(STARTS[start].astype(np.float32)) == ""


@pytest.mark.parametrize(
    ("layout", "sizes"),
    [
        ("v = Slice (w, starts, ends, axes)", {"starts": [2], "ends": [7], "axes": [1]}),
        ("v = Reshape (w, to)", {"to": [8, 5]}),
        ("v, r = Split <axis = 1> (w, parts)", {"parts": [5, 3]}),
        ("f = Unsqueeze (w, axes) v = Squeeze (f, axes)", {"axes": [0]}),
    ],
)
def test_a_weight_is_one_however_it_is_laid_out(layout: str, sizes: dict[str, list[int]]) -> None:
    """Sizes and places that are tensors of the file are no data."""
    width = 5 if "Reshape" in layout else 8
    weight = draw(8, width)
    body = onnx.parser.parse_graph(f"g () => () {{ {layout} y = MatMul (x, v) }}").node
    tensors = {"w": weight.astype(np.float32), **{k: np.array(v) for k, v in sizes.items()}}
    graph = helper.make_graph(
        body,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert select(specialize(model)).trained.keys() == {"w"}
