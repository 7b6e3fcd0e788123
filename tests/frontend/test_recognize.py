"""Chains that exporters spell out become one operator, and nothing else does."""

import numpy as np
import onnx
import pytest
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.elements import pointwise
from odtc.dialect.rows.softmax import safe_softmax
from odtc.frontend.file.specialize import specialize
from odtc.frontend.importer import FORWARD, import_forward
from odtc.frontend.normalize.pipeline import normalize
from tests.numeric.cases.activation import CASES, GELU
from tests.numeric.conftest import MATRIX, text_model

FOUND = {
    "Mul-gelu": pointwise.gelu.name,
    "Mul-gelu-tanh": pointwise.gelu_tanh.name,
    "Mul-hardswish": pointwise.hard_swish.name,
    "Mul-silu": pointwise.swish.name,
    "Where-softmax": safe_softmax.name,
}
LEFT = {
    "other root": text_model(
        "d = Div (h, root) e = Erf (d) a = Add (e, one) m = Mul (h, a) y = Mul (m, half)",
        MATRIX,
        constants=GELU | {"root": np.float32(1.5)},
    ),
    "other gate": text_model("n = Neg (h) s = Sigmoid (n) y = Mul (h, s)", MATRIX),
    "other slope": text_model("s = HardSigmoid (h) y = Mul (h, s)", MATRIX),
    "other value": text_model(
        "s = Softmax (h) n = IsNaN (s) y = Where (n, one, s)", MATRIX, constants=GELU
    ),
}


def operators(model: onnx.ModelProto) -> list[str]:
    """Names of the Relax operators of a model's inference function."""
    function = import_forward(normalize(specialize(model)))[FORWARD]
    names: list[str] = []

    def visit(expression: relax.Expr) -> None:
        name = operator_of(expression)
        names.extend([name] if name else [])

    relax.analysis.post_order_visit(function.body, visit)
    return names


@pytest.mark.parametrize("name", FOUND)
def test_a_chain_becomes_one_operator(name: str) -> None:
    names = operators(CASES[name])
    assert FOUND[name] in names
    assert len(names) == (4 if name == "Where-softmax" else 3)


@pytest.mark.parametrize("name", LEFT)
def test_what_only_looks_alike_is_left(name: str) -> None:
    own = {operator for operator in operators(LEFT[name]) if operator.startswith("odtc.")}
    assert own <= {pointwise.hard_sigmoid.name}
