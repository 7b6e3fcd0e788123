"""Max pooling in training keeps which elements it chose, not what it chose from.

A rectifier in front of it becomes a part of it: the largest of what is rectified is what is
rectified of the largest. So nothing of the size of the image waits for the backward pass: a window
whose elements are all zero or less passes nothing back either way, and of any other one the same
element is the largest. The rectifier may also stand in front of a reshape, or in front of each part
of a concatenation.
"""

from collections import Counter

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.max_pool import max_pool2d

_POOL = "relax.nn.max_pool2d"


def _is_plain(call: relax.Call) -> bool:
    """Whether there is a kernel for a pooling."""
    attrs, data = call.attrs, call.args[0].ty
    return str(attrs.layout) == "NCHW" and data.dtype == "float32" and not attrs.ceil_mode


class SaveChosen:
    """A replay rule for poolings through which a gradient flows.

    It has to come after `StopGradient`, which marks all others.

    Args:
        function: what is replayed: a function of one block.
    """

    def __init__(self, function: relax.Function) -> None:
        (block,) = function.body.blocks
        self._values = {binding.var: binding.value for binding in block.bindings}
        self._readers = Counter(relax.analysis.free_vars(function.body.body))
        for value in self._values.values():
            self._readers.update(relax.analysis.free_vars(value))

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the pooling as it is in training, or None where the binding is none."""
        call = binding.value
        if operator_of(call) != _POOL or not _is_plain(call):
            return None
        data = call.args[0]
        rectifies = self._is_rectified(data)
        pooled = max_pool2d(
            self._unrectified(builder, data) if rectifies else data,
            pool_size=call.attrs.pool_size,
            strides=call.attrs.strides,
            padding=call.attrs.padding,
            dilation=call.attrs.dilation,
            rectifies=rectifies,
        )
        return relax.TupleGetItem(builder.emit(pooled), 0)

    def _is_rectified(self, data: relax.Expr) -> bool:
        """Whether all of a tensor comes from rectifiers, and nothing else reads it on the way."""
        value = self._values.get(data)
        if value is None or self._readers[data] > 1:
            return False
        if operator_of(value) == "relax.nn.relu":
            return True
        if operator_of(value) == "relax.reshape":
            return self._is_rectified(value.args[0])
        return bool(_parts(value)) and all(map(self._is_rectified, _parts(value)))

    def _unrectified(self, builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
        """Such a tensor without its rectifiers."""
        value = self._values[data]
        if operator_of(value) == "relax.nn.relu":
            return value.args[0]
        if operator_of(value) == "relax.reshape":
            source = self._unrectified(builder, value.args[0])
            return builder.emit(R.reshape(source, value.args[1]))
        parts = [self._unrectified(builder, part) for part in _parts(value)]
        return builder.emit(R.concat(parts, int(value.attrs.axis)))


def _parts(value: relax.Expr) -> list[relax.Expr]:
    """The operands of a concatenation; none where the value is something else."""
    if operator_of(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return []
    return list(value.args[0].fields)
