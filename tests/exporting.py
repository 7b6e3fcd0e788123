"""PyTorch's exporter by `torch.export`, without what it would do anew in each call of a process."""

from functools import cache
from typing import Any


def functions_are_read_once() -> None:
    """From now on the exporter reads the sources of its functions in its first call alone.

    In each it asks onnxscript for the table of them, which parses some five hundred: half of the
    time of a small export. The table is always the same, and nobody writes to it.
    """
    from torch.onnx._internal import _lazy_import

    scripts: Any = vars(_lazy_import)["onnxscript_apis"]
    # As it is without this; both import onnxscript once something of it is asked for.
    unread = type(scripts)(scripts._name)

    @cache
    def table() -> list[object]:
        return unread.get_torchlib_ops()

    scripts.get_torchlib_ops = table
