"""Activations."""

from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import FORWARD_ONLY, Node, Operator, unary


def _last_axis(node: Node) -> str:
    axis = node.attrs.get("axis", 1 if node.opset < 13 else -1) % max(node.rank(), 1)
    if node.opset < 13 and axis != node.rank() - 1:
        return f"before opset 13 only the last axis is supported; the node has axis {axis}"
    return ""


OPERATORS: dict[str, Operator] = {
    "LogSoftmax": Operator(condition=_last_axis),
    "Relu": Operator(convert=unary(R.nn.relu)),
    "Sigmoid": Operator(convert=unary(R.sigmoid)),
    "Softmax": Operator(condition=_last_axis),
    "Tanh": Operator(convert=unary(R.tanh)),
    "Elu": FORWARD_ONLY,
    "Gelu": FORWARD_ONLY,
    "HardSigmoid": FORWARD_ONLY,
    "LeakyRelu": FORWARD_ONLY,
    "Selu": FORWARD_ONLY,
    "Softplus": FORWARD_ONLY,
}
