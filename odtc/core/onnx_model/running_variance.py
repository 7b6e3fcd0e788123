"""Whose variance the running variances of a file follow: ONNX's, or PyTorch's.

ONNX divides the squares of a batch by their number n, and so does Keras; PyTorch, by n - 1. A
normalisation has no attribute for it, so the metadata key `odtc.running-variance` of a file that
was made of a PyTorch module says `n-1`, and training moves the statistics as the module would.
"""

import onnx

from odtc.core.errors import ModelError

KEY, _UNBIASED = "odtc.running-variance", "n-1"


def write_unbiased(model: onnx.ModelProto) -> None:
    """Notes in the model's metadata that running variances follow PyTorch's."""
    others = [item for item in model.metadata_props if item.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    model.metadata_props.add(key=KEY, value=_UNBIASED)


def is_unbiased(model: onnx.ModelProto) -> bool:
    """Whether the squares of a batch are divided by n - 1 for its running variances.

    Raises:
        ModelError: the metadata says something else than that.
    """
    said = next((item.value for item in model.metadata_props if item.key == KEY), None)
    if said not in (None, _UNBIASED):
        raise ModelError(
            f"running variances are said to be of {said!r}, and only {_UNBIASED!r} is known",
            where=f"metadata {KEY}",
            hint="export the model again, or remove the key: they follow ONNX then",
        )
    return said is not None
