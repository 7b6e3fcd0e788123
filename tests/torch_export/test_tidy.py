"""Sequences of parts in an exporter's file become splits, where the file shows all of it."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from odtc.torch_export.tidy import tidy

AT = "p = SequenceAt (s, {0}) q = SequenceAt (s, {1}) y = Concat <axis = 1> (p, q)"
CASES = {
    "of a size": ("int64 {2}", AT, True),
    "of listed sizes": ("int64[3] {1, 3, 1}", AT, True),
    "with a part that is read twice": ("int64 {2}", AT.replace("{1}", "{0}"), False),
    "with a length": (
        "int64 {2}",
        "p = SequenceAt (s, {0}) n = SequenceLength (s) f = CastLike (n, p) y = Add (p, f)",
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("axis", [1, -1])
def test_sequences_of_parts(case: str, axis: int) -> None:
    split, reads, is_split = CASES[case]
    text = reads.format("zero", "two")
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        net (float[2, 5] x) => (float[2, N] y) <float[2, 5] h> {{
            zero = Constant <value = int64 {{0}}> () two = Constant <value = int64 {{2}}> ()
            size = Constant <value = {split}> () h = Neg (x)
            s = SplitToSequence <axis = {axis}> (h, size) {text} }}""")
    before = onnx.ModelProto.FromString(model.SerializeToString())
    tidy(model, {}, ["y"])
    kinds = [node.op_type for node in model.graph.node]
    assert ("Split" in kinds) is is_split
    assert ("SplitToSequence" in kinds) is not is_split
    onnx.checker.check_model(model, full_check=True)
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    results: Any = [ReferenceEvaluator(each).run(None, {"x": x}) for each in (before, model)]
    np.testing.assert_array_equal(results[0][0], results[1][0])


def test_a_sequence_of_as_many_parts_as_nobody_knows_stays() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        net (float[2, K] x) => (float[2, N] y) {
            size = Constant <value = int64 {2}> () zero = Constant <value = int64 {0}> ()
            h = Neg (x) s = SplitToSequence <axis = 1> (h, size) y = SequenceAt (s, zero) }""")
    tidy(model, {}, ["y"])
    assert "SplitToSequence" in [node.op_type for node in model.graph.node]
