"""Gradients of the activations."""

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.rule import Rule


def relu(
    result: relax.Var, _: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The gradient where the result is positive, and zero at zero, as PyTorch and ONNX Runtime.

    It passes where the result is not a number, as PyTorch's does.

    TVM's rule lets it pass at zero, which whole regions are where an image is blank and a bias is
    zero. It also reads the operator's input; the result is kept for the next operator anyway.
    """
    zero = relax.const(np.float32(0))
    return [R.where(builder.emit(R.less_equal(result, zero)), zero, grad)]


RULES: dict[str, Rule] = {"relax.nn.relu": relu}
