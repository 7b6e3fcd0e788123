"""An index that the model computes and that is out of bounds: the error names it as a cause."""

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import odtc
from odtc.core.errors import NumericError


def test_the_error_says_what_else_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "computed.onnx"
    path.write_bytes(
        parser.parse_model(
            """<ir_version: 10, opset_import: ["": 18]>
            g (float[2, 3] x) => (float[2, 2] y)
            <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
              axis = Constant <value = int64[1] {1}> ()
              s = ReduceSum <keepdims = 0> (x, axis)
              i = Cast <to = 7> (s)
              y = Gather (w, i)
            }"""
        ).SerializeToString()
    )
    y = np.zeros(2, np.int32)
    inside, outside = (np.full((2, 3), value, np.float32) for value in (1, 9))
    artifact = odtc.compile(path, loss="cross-entropy")
    with artifact.trainer(threads=1) as trainer:
        assert np.isfinite(trainer.step(inside, y, lr=0.1))
        with pytest.raises(NumericError, match=r"hint: .*an index that the model computes itself"):
            trainer.step(outside, y, lr=0.1)
    with (
        artifact.trainer(threads=1) as trainer,
        pytest.raises(
            NumericError, match=r"hint: .*an index out of bounds that the model computes"
        ),
    ):
        trainer.step(outside, y, lr=0.1)
