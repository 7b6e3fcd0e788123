"""Attention and rotary embeddings."""

import numpy as np

from tests.numeric.conftest import text_model, weight

RNG = np.random.default_rng(4)
MASK = RNG.random((4, 6)) < 0.6
MASK[1] = False
KV = {"k": weight(2, 2, 6, 5), "v": weight(2, 2, 6, 3)}
FLAT = {"k": weight(2, 6, 10), "v": weight(2, 6, 10, seed=1)}
QUERY = (2, 4, 4, 5)
SELF = "y = Attention <{}> (h, h, h)"
# As exporters spell attention out: heads apart and inside again, queries and keys scaled by the
# root, and zeros for a query that a mask would leave no key.
SPLIT = (
    "a = MatMul (h, wq) b = MatMul (h, wk) c = MatMul (h, wv) "
    "qs = Reshape (a, split) q = Transpose <perm = [0, 2, 1, 3]> (qs) "
    "ks = Reshape (b, split) vs = Reshape (c, split) v = Transpose <perm = [0, 2, 1, 3]> (vs) "
)
SPELLED = (
    "qr = Mul (q, root) kr = Mul (kt, root) s = MatMul (qr, kr) m = Where (mask, zero, minus) "
    "l = Add (s, m) w = Softmax <axis = -1> (l) n = IsNaN (w) p0 = Where (n, zero, w) "
    "z = MatMul (p0, v) t = Transpose <perm = [0, 2, 1, 3]> (z) y = Reshape (t, join)"
)
HEADS = {
    "split": np.array([2, 6, 2, 4]),
    "join": np.array([2, 6, 8]),
    "flat": np.array([4, 6, 4]),
    "across": np.array([2, 2, 4, 6]),
    "root": np.float32(0.7),
    "zero": np.float32(0),
    "minus": np.float32(-np.inf),
    "mask": np.tril(np.ones((6, 6), bool))[None, None],
}
PROJECTIONS = {f"w{name}": weight(8, 8, seed=seed) for seed, name in enumerate("qkv")}


def _spelled(keys):
    nodes = f"{SPLIT}{keys} {SPELLED}"
    return text_model(nodes, (2, 6, 8), parameters=PROJECTIONS, constants=HEADS)


def _attention(attributes, inputs="", shape=QUERY, **tensors):
    return text_model(f"y = Attention <{attributes}> (h, k, v{inputs})", shape, opset=24, **tensors)


def _shows(mode):
    """Scores, read beside the result: an exponential is finite where they are not."""
    # ONNX's reference implementation has no scores before they are capped.
    cap = 2.0 if mode else 0.0
    return text_model(
        f"r, pk, pv, s = Attention <softcap = {cap}, qk_matmul_output_mode = {mode}> (h, k, v, m) "
        "e = Exp (s) t = ReduceSum (e, last) y = Mul (r, t)",
        QUERY,
        parameters=KV,
        constants={"m": MASK, "last": np.array([-1])},
        opset=24,
    )


CASES = {
    "Softmax-heads": _spelled("kt = Transpose <perm = [0, 2, 3, 1]> (ks)"),
    "Softmax-flat-keys": _spelled(
        "k = Transpose <perm = [0, 2, 1, 3]> (ks) kf = Reshape (k, flat) "
        "kx = Transpose <perm = [0, 2, 1]> (kf) kt = Reshape (kx, across)"
    ),
    "Softmax-matrices": text_model(
        "k = Transpose <perm = [0, 2, 1]> (h) s = MatMul (h, k) d = Div (s, root) "
        "m = Where (mask, minus, d) w = Softmax <axis = -1> (m) y = MatMul (w, v)",
        (2, 5, 3),
        parameters={"v": weight(2, 5, 4)},
        constants={"root": np.float32(1.7), "minus": np.float32(-1e4), "mask": ~MASK[:, :5][:1]},
    ),
    "Attention": _attention("scale = 0.3", parameters=KV),
    "Attention-causal": text_model(
        SELF.format("is_causal = 1, softcap = 2.0"), (2, 3, 5, 4), opset=23
    ),
    "Attention-flat": _attention(
        "q_num_heads = 4, kv_num_heads = 2", shape=(2, 4, 20), parameters=FLAT
    ),
    "Attention-mask": _attention("scale = 0.3", ", m", parameters=KV, constants={"m": MASK}),
    "Attention-bias": _attention("scale = 0.3", ", m", parameters={**KV, "m": weight(4, 6)}),
    "Attention-past": _attention(
        "is_causal = 1",
        ", , pk, pv",
        parameters={**KV, "pk": weight(2, 2, 2, 5), "pv": weight(2, 2, 2, 3)},
    ),
    "Attention-lengths": _attention(
        "is_causal = 1", ", , , , n", parameters=KV, constants={"n": np.array([6, 3])}
    ),
    **{f"Attention-shows-{mode}": _shows(mode) for mode in range(4)},
    "RotaryEmbedding": text_model(
        "y = RotaryEmbedding (h, c, s, i)",
        (2, 3, 4, 6),
        parameters={"c": weight(9, 3), "s": weight(9, 3, seed=1)},
        constants={"i": RNG.integers(0, 9, (2, 4))},
        opset=23,
    ),
    "RotaryEmbedding-flat": text_model(
        "y = RotaryEmbedding <num_heads = 3, rotary_embedding_dim = 4, interleaved = 1> (h, c, s)",
        (2, 4, 18),
        parameters={"c": weight(2, 4, 2), "s": weight(2, 4, 2, seed=1)},
        opset=23,
    ),
}
