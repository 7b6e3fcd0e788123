"""Normalisations."""

from tests.numeric.conftest import IMAGE, node_model, weight

# ONNX's reference implementation of LRN loops over the batch where it means the channels.
SQUARE = (4, 4, 5, 3)
AFFINE = {"w": weight(4), "b": weight(4)}

CASES = {
    "GroupNormalization": node_model(
        "GroupNormalization", IMAGE, parameters=AFFINE, opset=21, num_groups=2, stash_type=11
    ),
    "InstanceNormalization": node_model("InstanceNormalization", IMAGE, parameters=AFFINE),
    "InstanceNormalization-1d": node_model("InstanceNormalization", (3, 4, 9), parameters=AFFINE),
    "LRN": node_model("LRN", SQUARE, size=3, alpha=0.5, beta=0.75, bias=1.5),
    "LRN-even": node_model("LRN", SQUARE, size=2, alpha=0.5),
    "LRN-steep": node_model("LRN", SQUARE, size=3, alpha=2.0, beta=1.5, bias=0.5),
    "LRN-flat": node_model("LRN", SQUARE, size=3, alpha=0.5, beta=0.0),
    "LayerNormalization": node_model(
        "LayerNormalization", (3, 5, 8), parameters={"w": weight(8), "b": weight(8)}
    ),
    "LayerNormalization-axis": node_model(
        "LayerNormalization",
        IMAGE,
        parameters={"w": weight(4, 7, 6), "b": weight(4, 7, 6)},
        axis=1,
        epsilon=1e-3,
    ),
    "LayerNormalization-broadcast": node_model(
        "LayerNormalization", IMAGE, parameters={"w": weight(7, 1)}, axis=2
    ),
    "LpNormalization": node_model("LpNormalization", IMAGE, axis=1),
    "RMSNormalization": node_model(
        "RMSNormalization", (3, 5, 8), parameters={"w": weight(8)}, opset=23
    ),
}
