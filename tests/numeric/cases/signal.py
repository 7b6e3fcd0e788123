"""Fourier transforms, and layers whose past is a state."""

import numpy as np

from tests.numeric.conftest import text_model, weight

COMPLEX, REAL = (2, 6, 3, 2), (2, 6, 1)
LENGTH = {"n": np.array(8), "short": np.array(5), "axis": np.array(1)}
STEPS = {"step": np.array(3), "n": np.array(4)}
WINDOW = np.hanning(4).astype(np.float32)


def _dft(node, shape, opset=20, **constants):
    """Parts of two frequencies, with weights: the transform alone would be linear."""
    return text_model(f"a = Mul (h, h) {node}", shape, constants=constants, opset=opset)


def _stft(nodes, shape, **tensors):
    return text_model(f"a = Mul (h, h) {nodes}", shape, opset=17, **tensors)


def _linear(rule, inputs="", state="", shape=(2, 4, 12), **parameters):
    heads = {"k": weight(2, 4, 6), "v": weight(2, 4, 4)}
    node = (
        f'r, s = LinearAttention <q_num_heads = 4, kv_num_heads = 2, update_rule = "{rule}"> '
        f"(h, k, v, {state}{inputs}) t = ReduceSum (s, all) y = Mul (r, t)"
    )
    constants = {"all": np.array([1, 2, 3])}
    node = node.replace("y = Mul (r, t)", "u = Reshape (t, column) y = Mul (r, u)")
    constants["column"] = np.array([2, 1, 1])
    return text_model(
        node, shape, parameters={**heads, **parameters}, constants=constants, opset=27
    )


CASES = {
    "CausalConvWithState": text_model(
        'y, s = CausalConvWithState <activation = "silu"> (h, w, b)',
        (2, 3, 5),
        parameters={"w": weight(3, 1, 4), "b": weight(3)},
        opset=27,
    ),
    "CausalConvWithState-past": text_model(
        "r, s = CausalConvWithState (h, w, , c) t = ReduceSum (s, last) y = Mul (r, t)",
        (2, 3, 2),
        parameters={"w": weight(3, 1, 4), "c": weight(2, 3, 3)},
        constants={"last": np.array([2])},
        opset=27,
    ),
    "DFT": _dft("y = DFT (a)", COMPLEX),
    "DFT-onesided": _dft(
        "y = DFT <onesided = 1> (a, n, axis)", REAL, n=LENGTH["n"], axis=LENGTH["axis"]
    ),
    "DFT-cut": _dft("y = DFT (a, n)", (2, 6, 1), n=LENGTH["short"]),
    "DFT-inverse": _dft("y = DFT <inverse = 1> (a, , axis)", COMPLEX, axis=LENGTH["axis"]),
    "DFT-real-again": _dft(
        "y = DFT <inverse = 1, onesided = 1> (a, n, axis)",
        (2, 4, 3, 2),
        n=np.array(7),
        axis=LENGTH["axis"],
    ),
    "DFT-17": _dft("y = DFT <axis = 1, onesided = 1> (a)", (2, 5, 1), 17),
    "LinearAttention": _linear(
        "gated_delta", "g, b", "s0, ", s0=weight(2, 2, 3, 2), g=weight(2, 4, 2), b=weight(2, 4, 1)
    ),
    "LinearAttention-linear": _linear("linear"),
    "LinearAttention-gated": _linear("gated", ", g", g=weight(2, 4, 6)),
    "LinearAttention-delta": _linear("delta", ", , b", b=weight(2, 4, 2)),
    "STFT": _stft(
        "v = Mul (w, w) y = STFT (a, step, v)",
        (2, 11, 1),
        constants=STEPS,
        parameters={"w": WINDOW},
    ),
    "STFT-complex": _stft("y = STFT <onesided = 0> (a, step, , n)", (2, 11, 2), constants=STEPS),
}
