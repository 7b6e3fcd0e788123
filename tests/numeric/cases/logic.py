"""Comparisons, booleans, bits, choice and casts: each decides what is trained."""

import numpy as np

from tests.numeric.conftest import MATRIX, node_model, text_model, weight

W = {"w": weight(10)}
NUMBERS = {"zero": np.float32(0), "half": np.float32(0.5), "minus": np.float32(-np.inf)}
INTS = {"i": np.arange(10), "j": np.int64(6)}


def chooses(condition: str, constants: dict[str, np.ndarray]):
    """The input where the condition `c` holds, its square elsewhere."""
    text = f"{condition} s = Mul (h, h) y = Where (c, h, s)"
    return text_model(text, MATRIX, constants=constants, parameters=W, opset=18)


def compares(op_type: str):
    return chooses(f"c = {op_type} (h, w)", {})


def combines(op_type: str):
    text = f"a = Less (h, w) b = Less (zero, h) c = {op_type} (a, b)"
    return chooses(text, NUMBERS)


def bits(node: str):
    """On integers that the input gives; the result is compared."""
    return chooses(f"f = Mul (h, w) k = Cast <to=7> (f) r = {node} c = Less (r, j)", INTS)


CASES = {
    "And": combines("And"),
    "BitShift": chooses(
        'a = Abs (h) k = Cast <to=13> (a) r = BitShift <direction="LEFT"> (k, n) '
        "q = Cast <to=7> (r) c = Less (q, j)",
        {"n": np.uint64(3), **INTS},
    ),
    "BitwiseAnd": bits("BitwiseAnd (k, i)"),
    "BitwiseNot": bits("BitwiseNot (k)"),
    "BitwiseOr": bits("BitwiseOr (k, i)"),
    "BitwiseXor": bits("BitwiseXor (k, i)"),
    "Cast": text_model("a = Cast <to=11> (h) b = Mul (a, a) y = Cast <to=1> (b)", MATRIX),
    "Cast-same": node_model("Cast", MATRIX, to=1),
    "Cast-ints": text_model("a = Cast <to=7> (h) b = Cast <to=1> (a) y = Mul (b, h)", MATRIX),
    "Cast-bool": text_model(
        "r = Relu (h) a = Cast <to=9> (r) b = Cast <to=1> (a) y = Mul (b, h)", MATRIX
    ),
    "CastLike": text_model("a = CastLike (h, w) y = Mul (a, w)", MATRIX, parameters=W),
    "Equal": chooses("a = Floor (h) c = Equal (a, zero)", NUMBERS),
    "Equal-ints": chooses("a = Cast <to=7> (h) c = Equal (a, i)", INTS),
    "Equal-bools": combines("Equal"),
    "Greater": compares("Greater"),
    "GreaterOrEqual": compares("GreaterOrEqual"),
    "IsInf": chooses("d = Less (h, w) b = Where (d, h, minus) c = IsInf (b)", NUMBERS),
    "IsInf-positive": chooses(
        "d = Less (h, w) b = Where (d, h, minus) c = IsInf <detect_negative=0> (b)", NUMBERS
    ),
    "IsNaN": chooses("a = Log (h) c = IsNaN (a)", {}),
    "Less": compares("Less"),
    "LessOrEqual": compares("LessOrEqual"),
    "Mod-ints": bits("Mod (k, j)"),
    "Mod-ints-fmod": bits("Mod <fmod=1> (k, j)"),
    "Not": chooses("a = Less (h, w) c = Not (a)", {}),
    "Or": combines("Or"),
    "Where": text_model("c = Less (h, w) y = Where (c, h, w)", MATRIX, parameters=W),
    "Where-mask": text_model(
        "s = Add (h, v) m = Where (c, zero, minus) a = Add (s, m) y = Softmax (a)",
        MATRIX,
        constants={"c": np.arange(10) % 3 > 0, **NUMBERS},
        parameters={"v": weight(3, 1)},
    ),
    "Where-scalar": text_model(
        "y = Where (c, h, zero)", MATRIX, constants={"c": np.arange(10) % 3 > 0, **NUMBERS}
    ),
    "Where-everywhere": text_model(
        "a = Where (c, h, w) y = Where (c, row, a)",
        MATRIX,
        constants={"c": np.zeros(10, bool), "row": np.float32(7)},
        parameters=W,
    ),
    "Xor": combines("Xor"),
}
