"""Reshapes that follow each other become one, which shares the memory of what it is made from."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from odtc.passes.graph.join_reshapes import JoinReshapes
from tests.host import loaded


def module() -> tvm.IRModule:
    """Three reshapes, of which the middle one is also a result."""
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(op.reshape(op.exp(x), (24,)))
            second = builder.emit(op.reshape(first, (2, 12)))
            third = builder.emit(op.reshape(second, (3, 8)))
            results = relax.Tuple([builder.emit_output(each) for each in (second, third)])
        builder.emit_func_output(results)
    return builder.finalize()


def run(given: tvm.IRModule, x: np.ndarray) -> list[np.ndarray]:
    executable = loaded(given)
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    return [each.numpy() for each in results]


def test_each_reads_the_tensor_itself() -> None:
    joined = JoinReshapes().run(module())
    (block,) = joined["main"].body.blocks
    calls = [b for b in block.bindings if isinstance(b.value, relax.Call)]
    (exponential,) = (b.var for b in calls if b.value.op.name == "relax.exp")
    reshapes = [b.value for b in calls if b.value.op.name == "relax.reshape"]
    assert [call.args[0] for call in reshapes] == [exponential] * 2
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    for found, expected in zip(run(joined, x), run(module(), x), strict=True):
        np.testing.assert_array_equal(found, expected)
