"""Names of weights that a quantizer has put in place of others."""

import re

# What onnxruntime's quantizers put behind the name of a weight.
_SUFFIX = re.compile(r"_quantized$|(_DQ)?_Q\d$")


def plain_name(name: str) -> str:
    """The name of a weight before it was quantized; of others the name as it is."""
    return _SUFFIX.sub("", name)
