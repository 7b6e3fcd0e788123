"""Sizes of dimensions, as an ONNX file gives them."""

import onnx


def size_of(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """A number; or the name of an open dimension, which is empty where it has none.

    Exporters write -1 for an open dimension, too, and onnxruntime reads any negative size so.
    """
    if not dim.HasField("dim_value"):
        return dim.dim_param
    return dim.dim_value if dim.dim_value >= 0 else ""
