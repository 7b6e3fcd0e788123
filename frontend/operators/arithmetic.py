"""Elementwise arithmetic, with broadcasting."""

from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import FORWARD_ONLY, Emit, Node, Operator, binary, unary


def _sum(node: Node, emit: Emit) -> str:
    """Sum of n becomes n - 1 Adds: TVM's importer would stack copies of the inputs."""
    total = node.inputs[0]
    for term in node.inputs[1:]:
        total = emit("Add", total, term)
    return total


def _constant_exponent(node: Node) -> str:
    return "" if node.constant(1) is not None else "the exponent must be a constant"


OPERATORS: dict[str, Operator] = {
    "Abs": Operator(convert=unary(R.abs)),
    "Add": Operator(convert=binary(R.add)),
    "Cos": Operator(convert=unary(R.cos)),
    "Div": Operator(),
    "Exp": Operator(convert=unary(R.exp)),
    "Log": Operator(convert=unary(R.log)),
    "Mul": Operator(convert=binary(R.multiply)),
    "Neg": Operator(convert=unary(R.negative)),
    "Pow": Operator(condition=_constant_exponent),
    "Sin": Operator(convert=unary(R.sin)),
    "Sqrt": Operator(convert=unary(R.sqrt)),
    "Sub": Operator(convert=binary(R.subtract)),
    "Sum": Operator(expand=_sum),
    "Cast": FORWARD_ONLY,
    "Ceil": FORWARD_ONLY,
    "Erf": FORWARD_ONLY,
    "Floor": FORWARD_ONLY,
    "Max": FORWARD_ONLY,
    "Min": FORWARD_ONLY,
    "Round": FORWARD_ONLY,
    "Sign": FORWARD_ONLY,
}
