"""Slices, reversals and running sums and products along axes."""

from tests.numeric.conftest import IMAGE, ints, node_model

SMALLEST = -(2**63)


def _slice(starts, ends, axes=None, steps=None, shape=IMAGE):
    constants = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return node_model(
        "Slice", shape, constants={k: ints(*v) for k, v in constants.items() if v is not None}
    )


CASES = {
    "CumProd": node_model("CumProd", (3, 5, 2), constants={"axis": ints(1)[0]}, opset=26),
    "CumProd-both": node_model(
        "CumProd", (3, 2, 4), constants={"axis": ints(-1)[0]}, opset=26, exclusive=1, reverse=1
    ),
    "CumProd-one": node_model(
        "CumProd", (3, 2, 1), constants={"axis": ints(2)[0]}, opset=26, reverse=1
    ),
    "CumSum": node_model("CumSum", (3, 4, 5), constants={"axis": ints(-1)[0]}),
    "CumSum-exclusive": node_model(
        "CumSum", (3, 4, 5), constants={"axis": ints(1)[0]}, exclusive=1
    ),
    "CumSum-both": node_model(
        "CumSum", (3, 4, 5), constants={"axis": ints(1)[0]}, exclusive=1, reverse=1
    ),
    "ReverseSequence": node_model(
        "ReverseSequence", (3, 4, 2), constants={"n": ints(2, 4, 1)}, batch_axis=0, time_axis=1
    ),
    "ReverseSequence-time": node_model(
        "ReverseSequence", (4, 3, 2), constants={"n": ints(2, 4, 1)}, batch_axis=1, time_axis=0
    ),
    "Slice": _slice((1, -4), (3, 2**62), (1, 2)),
    "Slice-all": _slice((0, 0), (3, 9)),
    "Slice-attributes": node_model("Slice", IMAGE, opset=9, starts=[1], ends=[-1], axes=[2]),
    "Slice-steps": _slice((1, 0), (7, 6), (2, 3), (3, 2)),
    "Slice-backwards": _slice((-1, 4, 5), (SMALLEST, 0, 1), (1, 2, -1), (-1, -2, -3)),
}
