"""Reductions over axes."""

from tests.numeric.conftest import IMAGE, ints, node_model

CASES = {
    "ReduceMean": node_model("ReduceMean", IMAGE, axes=[2, 3], keepdims=0),
    "ReduceSum": node_model("ReduceSum", IMAGE, constants={"axes": ints(2)}, keepdims=1),
}
