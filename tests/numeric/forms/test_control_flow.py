"""Control flow and sequences that are known when the model is compiled, and what is refused."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import odtc
from odtc.core.errors import UnsupportedError
from odtc.frontend.coverage import check_graph
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import names_read
from tests.numeric.conftest import listing, relative_error, weight

HEAD = """<ir_version: 8, opset_import: ["" : 17]>
net (float[3, 6] x) => (float[n, m] logits)
"""
# Name to nodes that compute `logits` from `h`; [6, 6] `w`, [6] `b` and `p` are trained.
BODIES = {
    "if-then": """
        c = Constant <value = bool {1}> ()
        logits = If (c) <
            then_branch = yes () => (float[3, 6] a) { t = MatMul (h, w) a = Tanh (t) },
            else_branch = no () => (float[3, 6] d) { d = Neg (h) }>
    """,
    "if-else": """
        size = Shape (h) other = Constant <value = int64[2] {3, 7}> ()
        same = Equal (size, other) some = Cast <to = 7> (same) all = ReduceMin <keepdims = 0> (some)
        c = Cast <to = 9> (all)
        logits = If (c) <
            then_branch = yes () => (float[3, 6] a) { a = Neg (h) },
            else_branch = no () => (float[3, 6] d) { t = Mul (h, b) d = Sigmoid (t) }>
    """,
    "loop": """
        trips = Constant <value = int64 {3}> () c = Constant <value = bool {1}> ()
        last, all = Loop (trips, c, h) <body = step
            (int64 i, bool go, float[3, 6] s) => (bool next, float[3, 6] new, float[3, 6] out) {
                next = Identity (go) t = MatMul (s, w) f = CastLike (i, t)
                u = Add (t, f) new = Tanh (u) out = Mul (new, b) }>
        mean = ReduceMean <axes = [0], keepdims = 0> (all)
        logits = Add (mean, last)
    """,
    # As Keras' GRU is written: the body counts, and says whether there is a further step.
    "counted": """
        three = Constant <value = int64[3] {3, 2, 3}> () apart = Reshape (h, three)
        steps = Transpose <perm = [1, 0, 2]> (apart) rows = Constant <value = int64[3] {3, 2, 1}> ()
        kernel, recurrent, rest = Split <axis = 0> (w, rows)
        shape = Shape (steps) zero = Constant <value = int64 {0}> ()
        size = Gather (shape, zero) n = Cast <to = 6> (size)
        begin = Constant <value = int32 {0}> () a1 = Less (begin, n) a2 = Less (begin, n)
        c = And (a1, a2) trips = Constant <value = int64 {9223372036854775807}> ()
        halves = Constant <value = int64[2] {2, 4}> () state, others = Split <axis = 1> (h, halves)
        nothing = Sub (state, state)
        time, count, last, all = Loop (trips, c, begin, begin, nothing) <body = step
            (int64 i, bool go, int32 t, int32 k, float[3, 2] s)
            => (bool next, int32 t1, int32 k1, float[3, 2] new, float[3, 2] out) {
                at = Cast <to = 7> (t) xt = Gather (steps, at)
                xm = MatMul (xt, kernel) xb = Add (xm, b) xz, xr, xh = Split <axis = 1> (xb)
                rm = MatMul (s, recurrent) rb = Add (rm, b) rz, rr, rh = Split <axis = 1> (rb)
                zs = Add (xz, rz) z = Sigmoid (zs) rs = Add (xr, rr) r = Sigmoid (rs)
                rg = Mul (r, rh) hs = Add (xh, rg) hh = Tanh (hs)
                d = Sub (s, hh) zd = Mul (z, d) new = Add (hh, zd) out = Identity (new)
                one = Constant <value = int32 {1}> () t1 = Add (t, one) k1 = Add (k, one)
                l1 = Less (k1, n) l2 = Less (t1, n) next = And (l1, l2) }>
        m = ReduceMean <axes = [0], keepdims = 0> (all) logits = Concat <axis = 1> (m, last, state)
    """,
    "nested": """
        trips = Constant <value = int64 {2}> () c = Constant <value = bool {1}> ()
        logits = Loop (trips, c, h) <body = step
            (int64 i, bool go, float[3, 6] s) => (bool next, float[3, 6] new) {
                next = Constant <value = bool {1}> ()
                one = Constant <value = int64 {1}> () first = Less (i, one)
                new = If (first) <
                    then_branch = yes () => (float[3, 6] a) { t = MatMul (s, w) a = Tanh (t) },
                    else_branch = no () => (float[3, 6] d) { d = Mul (s, b) }> }>
    """,
    "scan": """
        zero = Constant <value = float[3] {0, 0, 0}> () columns = Transpose (h)
        last, all = Scan (zero, columns) <num_scan_inputs = 1, body = step
            (float[3] s, float[3] e) => (float[3] new, float[3] out) {
                t = Add (s, e) new = Tanh (t) out = Mul (new, e) }>
        rows = Transpose (all) m = MatMul (rows, w)
        axes = Constant <value = int64[1] {1}> () column = Unsqueeze (last, axes)
        logits = Add (m, column)
    """,
    "sequence": """
        parts = SplitToSequence <axis = 1> (h, two)
        zero = Constant <value = int64 {0}> () back = Constant <value = int64 {-1}> ()
        first = SequenceAt (parts, zero) last = SequenceAt (parts, back)
        pair = SequenceConstruct (last, first) more = SequenceInsert (pair, first)
        less = SequenceErase (more, zero) n = SequenceLength (less)
        four = ConcatFromSequence <axis = 1> (less) big = Concat <axis = 1> (four, last)
        m = MatMul (big, w) f = CastLike (n, m) logits = Mul (m, f)
    """,
    "sequence-stack": """
        parts = SplitToSequence <axis = 1, keepdims = 0> (h)
        all = ConcatFromSequence <axis = 0, new_axis = 1> (parts)
        back = Transpose <perm = [1, 0]> (all) logits = MatMul (back, w)
    """,
    "compress": """
        keep = Constant <value = bool[6] {1, 0, 1, 1, 0, 1}> ()
        some = Compress <axis = 1> (h, keep) logits = Concat <axis = 1> (some, h)
    """,
}
REFUSED = {
    "if": (
        """m = ReduceMax <keepdims = 0> (h) z = Constant <value = float {0}> () c = Less (m, z)
        logits = If (c) <
            then_branch = yes () => (float[k, 6] a) { a = Neg (h) },
            else_branch = no () => (float[k, 6] d) { d = Tanh (w) }>""",
        "(If): unsupported: its condition depends on the data, and its branches give 'logits' two",
    ),
    "loop": (
        """trips = Constant <value = int64 {3}> () c = Constant <value = bool {1}> ()
        logits = Loop (trips, c, h) <body = step
            (int64 i, bool go, float[3, 6] s) => (bool next, float[3, 6] new) {
                new = Tanh (s) m = ReduceMax <keepdims = 0> (new)
                z = Constant <value = float {0}> () next = Less (z, m) }>""",
        "(Loop): unsupported: it may end early, as its data say",
    ),
    "counted": (
        """trips = Constant <value = int64 {30}> () c = Constant <value = bool {1}> ()
        z = Constant <value = int64 {0}> ()
        last, logits = Loop (trips, c, z, h) <body = step
            (int64 i, bool go, int64 k, float[3, 6] s)
            => (bool next, int64 new, float[3, 6] out) {
                out = Tanh (s) m = ReduceMax <keepdims = 0> (out) f = Ceil (m)
                d = Cast <to = 7> (f) new = Add (k, d)
                most = Constant <value = int64 {3}> () next = Less (new, most) }>""",
        "(Loop): unsupported: it may end early, as its data say",
    ),
    "nonzero": (
        "i = NonZero (h) f = Cast <to = 1> (i) s = ReduceSum (f) logits = Add (h, s)",
        "(NonZero): unsupported: what it searches must be constant",
    ),
}


def model_of(body: str, weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """The model; with weights of its own, it is one of double precision."""
    text = HEAD + "{ h = Add (x, p) " + body + "}"
    tensors = {"p": weight(1, 6), "w": weight(6, 6), "b": weight(6), "two": np.array(2)}
    if weights is not None:
        text, tensors = text.replace("float", "double"), tensors | weights
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name)
        for name, value in tensors.items()
        if name in f"{body} p"
    )
    return listing(model, [name for name in tensors if name != "two" and name in f"{body} p"])


def weights_of(model: onnx.ModelProto) -> list[str]:
    """Names of the float tensors that a node reads."""
    read = {name for node in model.graph.node for name in names_read(node)}
    floats = [item for item in model.graph.initializer if item.data_type == onnx.TensorProto.FLOAT]
    return [item.name for item in floats if item.name in read]


def loss_of(body: str, weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy by ONNX Runtime in double precision.

    ONNX's own reference implementation has Loop and Scan wrong, or not at all.
    """
    options = onnxruntime.SessionOptions()
    # Its fused kernels are for single precision only.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model_of(body, weights).SerializeToString(), options)
    (logits,) = session.run(None, {"x": x.astype(np.float64)})
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_probability[np.arange(len(y)), y].mean())


@pytest.mark.parametrize("name", BODIES)
def test_known_control_flow(name: str, saved) -> None:
    """The loss and its slopes are those of ONNX Runtime."""
    body, x, y = BODIES[name], weight(3, 6, seed=4), np.array([1, 5, 2])
    model = model_of(body)
    trainer = odtc.compile(saved(model), train=weights_of(model)).trainer()
    before = trainer.parameters()
    loss = trainer.step(x, y, lr=1.0)
    gradients = {key: before[key] - value for key, value in trainer.parameters().items()}
    weights, rng = {k: v.astype(np.float64) for k, v in before.items()}, np.random.default_rng(1)
    assert loss == pytest.approx(loss_of(body, weights, x, y), rel=1e-5)
    for key, gradient in gradients.items():
        direction = 1e-5 * rng.standard_normal(gradient.shape)
        ends = [loss_of(body, weights | {key: weights[key] + s * direction}, x, y) for s in (1, -1)]
        size = float(np.abs(gradient * direction).sum())
        assert float((gradient * direction).sum()) == pytest.approx(
            (ends[0] - ends[1]) / 2, rel=1e-3, abs=1e-4 * size
        )


def test_a_scan_backwards(saved) -> None:
    attributes = """num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
        scan_output_axes = [1], scan_output_directions = [1]"""
    body = BODIES["scan"].replace("num_scan_inputs = 1", attributes)
    body = body.replace("columns = Transpose (h)", "columns = Identity (h)")
    path = saved(model_of(body.replace("rows = Transpose (all)", "rows = Identity (all)")))
    x = weight(3, 6, seed=4)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    assert relative_error(odtc.compile(path).trainer().evaluate(x), expected) < 1e-5


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_data_decide_is_refused(name: str, saved) -> None:
    body, reason = REFUSED[name]
    model = model_of(body)
    with pytest.raises(UnsupportedError) as failure:
        odtc.compile(saved(model), train=weights_of(model))
    assert reason in str(failure.value)


def test_weights_of_a_branch_are_trained() -> None:
    """A float initializer of a body is a parameter, as one of the graph is."""
    model = model_of(BODIES["if-then"].replace("MatMul (h, w)", "MatMul (h, inner)"))
    del model.metadata_props[:]
    branch = model.graph.node[-1].attribute[0].g
    branch.initializer.append(numpy_helper.from_array(weight(6, 6), "inner"))
    graph = specialize(model)
    assert "inner" in graph.parameters
    assert not any(report.blocks for report in check_graph(graph))
    assert relative_error(graph.parameters["inner"], weight(6, 6)) == 0


@pytest.mark.parametrize(
    ("trips", "step", "bound", "expected"),
    [(9, 1, 4, 4), (3, 1, 4, 3), (9, 3, 4, 2), (9, -1, 4, 9), (9, 1, 0, 1), (0, 1, 4, 0)],
)
def test_trips_are_counted(trips: int, step: int, bound: int, expected: int) -> None:
    """A counter, one trip after its use, until it reaches a bound."""
    body = f"""
        trips = Constant <value = int64 {{{trips}}}> () c = Constant <value = bool {{1}}> ()
        zero = Constant <value = int64 {{0}}> ()
        last, logits = Loop (trips, c, zero, h) <body = step
            (int64 i, bool go, int64 k, float[3, 6] s)
            => (bool next, int64 new, float[3, 6] out) {{
                by = Constant <value = int64 {{{step}}}> () new = Add (k, by) out = Tanh (s)
                most = Constant <value = int64 {{{bound}}}> () next = Less (new, most) }}>
    """
    graph = specialize(model_of(body))
    assert [node.op_type for node in graph.nodes].count("Tanh") == expected
    assert any(node.op_type == "Loop" for node in graph.nodes) == (expected == 0)
