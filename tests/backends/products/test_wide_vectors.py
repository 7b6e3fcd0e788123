"""Products for computers with AVX-512 keep their sums in registers, in machine code.

A kernel of many transposed copies beside its product is where LLVM had kept the orders of shuffles,
or elements that it gathered, in the registers that the sums need.
"""

import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import odtc
from tests.backends.kernels.machine_code import count, innermost_loops

TARGET = "host-cpu{mcpu=skylake-avx512}"
MULTIPLY_ADD = "vfmadd231ps"
BATCH = 4


def block(side: int, narrow: int, wide: int) -> onnx.ModelProto:
    """The convolutions of one tap of a block of a network, to more channels and back."""
    rng = np.random.default_rng(0)
    shapes = {"up": (wide, narrow, 1, 1), "down": (narrow, wide, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "up"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "down"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["y"]),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", float32, [BATCH, narrow, side, side])],
        [helper.make_tensor_value_info("y", float32, [BATCH, narrow])],
        [
            numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
            for name, shape in shapes.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# Of ResNet-50 and of MobileNetV2; images of 14x14 and 7x7 are no whole vectors. What was last in
# squares of transposed copies once took the registers of tiles as wide as those of the second one.
@pytest.mark.parametrize(("side", "narrow", "wide"), [(14, 256, 1024), (7, 160, 960)])
def test_sums_stay_in_registers(tmp_path: Path, side: int, narrow: int, wide: int):
    onnx.save(block(side, narrow, wide), tmp_path / "block.onnx")
    artifact = tmp_path / "block.odtc"
    odtc.compile(tmp_path / "block.onnx", target=TARGET, batch=BATCH).save(artifact)
    with zipfile.ZipFile(artifact) as archive:
        library = Path(archive.extract("step.so", tmp_path))
    loops = [loop for loop in innermost_loops(library) if count(loop, MULTIPLY_ADD) >= 16]
    # Two forward products, a data gradient and two weight gradients.
    assert len(loops) >= 5
    for loop in loops:
        assert not [item for item in loop if item.is_spill]
