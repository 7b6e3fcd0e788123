"""Observes a forward for what a file may not reproduce: random numbers, and reads of values."""

import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from odtc.core.errors import ModelError, UnsupportedError
from odtc.frontend.graph import bodies_of
from odtc.torch_export.watching.lines import user_line

# A dropout has one on each device.
_DRAWING = {
    *("bernoulli", "bernoulli_", "native_dropout", "_fused_dropout"),
    *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm"),
    *("uniform_", "normal_", "normal", "exponential_", "multinomial"),
}
_NODES = {"Dropout", "Bernoulli", "Multinomial", "RandomUniform", "RandomUniformLike"}
_NODES |= {"RandomNormal", "RandomNormalLike"}
# Words of TorchScript's tracer in its warning that a tensor's values become constants.
_BAKED = ("NumPy array", "Python list")

Place = tuple[str, int]


@dataclass
class ForwardFacts:
    """Observations of a forward.

    Attributes:
        draws: how often it drew random numbers.
        places: lines that read a tensor's value, and their callers.
        kinds: types of the numbers that it computed.
    """

    draws: int = 0
    places: set[Place] = field(default_factory=set)
    kinds: set[torch.dtype] = field(default_factory=set)


class Watch(TorchDispatchMode):
    """A block whose operators are observed.

    Raises:
        UnsupportedError: the forward calls an operator that takes functions, such as `torch.cond`.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen = ForwardFacts()
        self._is_refused = False

    def __exit__(self, *raised: Any) -> None:
        """Leaves the block, and drops what PyTorch compiled of a refused operator."""
        super().__exit__(*raised)
        if self._is_refused:
            # Such operators are compiled where they are called, and the next call in this process
            # would go by what the refusal cut short; what is dropped is compiled again when needed.
            torch.compiler.reset()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator, and records its kind."""
        if isinstance(func, HigherOrderOperator):
            self._is_refused = True
            raise UnsupportedError(
                f"the forward calls {func.name()!r}, an operator that takes functions; control "
                "flow by torch.cond, while_loop or scan is not exported",
                where=f"module, in {user_line()}",
                hint="choose in Python by what does not depend on values, compute both and choose "
                "by torch.where, or write the loop out",
            )
        name = func.__name__.split(".")[0]
        if name.startswith("rrelu") and any(args[4:5]):  # whether it trains
            raise UnsupportedError(
                "the slope of nn.RReLU is random while it trains, and ONNX has no such operator",
                where=f"module, in {user_line()}",
                hint="take nn.LeakyReLU(slope), which it is in eval(), or nn.PReLU, which learns "
                "its slope",
            )
        self.seen.draws += name in _DRAWING
        if func is torch.ops.aten._local_scalar_dense.default:
            self.seen.places |= {(f.filename, f.lineno or 0) for f in traceback.extract_stack()}
        result = func(*args, **(kwargs or {}))
        self.seen.kinds |= {t.dtype for t in tree_leaves(result) if isinstance(t, torch.Tensor)}
        return result


def check_draws(model: onnx.ModelProto, seen: ForwardFacts) -> None:
    """Checks that a file draws random numbers as often as the module does while it trains.

    Raises:
        ModelError: it does so more seldom: a dropout is gone.
    """
    count = sum(node.op_type in _NODES for node in _all_nodes(model.graph))
    if count < seen.draws:
        raise ModelError(
            f"the module draws random numbers {seen.draws} times while it trains, such as for "
            f"dropout; the file has {count} nodes that do"
        )


@contextmanager
def decisions_refused(seen: ForwardFacts) -> Iterator[None]:
    """A block in which a module is traced.

    Args:
        seen: of the module's forward; under a tracer sizes are tensors, and only there.

    Raises:
        ModelError: Python code went by the values of a tensor: the file would go by those of the
            example whatever it is fed.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    kind = torch.jit.TracerWarning  # pyright: ignore[reportPrivateImportUsage]
    said = [item for item in caught if issubclass(item.category, kind)]
    for item in said:
        is_value = (item.filename, item.lineno) in seen.places
        if is_value or any(text in str(item.message) for text in _BAKED):
            raise ModelError(
                f"Python code goes by the values of a tensor, in {item.filename}, line "
                f"{item.lineno}; the file would keep what the example led to"
            )


def _all_nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body)
