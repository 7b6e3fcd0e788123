"""Where a forward changes the gradient: `detach`, `data`, blocks under `no_grad`, and hooks."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from odtc.torch_export.hooks import Function, function_around
from odtc.torch_export.lines import user_line

_DETACHING = {Tensor.detach, Tensor.detach_, Tensor.data.__get__}  # pyright: ignore[reportAttributeAccessIssue]
_HOOKING = {Tensor.register_hook, Tensor.register_post_accumulate_grad_hook}

Stop = tuple[str, Tensor]


class Stops(TorchFunctionMode):
    """A block in which the calls are noted that change a gradient.

    Attributes:
        functions: the autograd functions whose forward tensors with a gradient were used in; there
            no gradient is recorded, and none of it is a stop.
        hooked: lines at which tensors are given hooks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Stop] = []
        self.functions: set[Function] = set()
        self.hooked: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs the function, and notes its place."""
        result = func(*args, **(kwargs or {}))
        if (func in _DETACHING or not torch.is_grad_enabled()) and _is_value(func, result):
            held = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)]
            self._note([tensor for tensor in held if tensor.requires_grad])
        elif func in _HOOKING:
            self.hooked.add(user_line())
        return result

    def _note(self, held: list[Tensor]) -> None:
        if held and (function := function_around(sys._getframe())):
            self.functions.add(function)
        else:
            self._found += [(user_line(), tensor) for tensor in held]

    def places(self, still: Iterable[Tensor]) -> list[str]:
        """Lines at which a gradient stops, but for weights that have none anywhere."""
        known = {id(tensor) for tensor in still}
        return sorted({place for place, tensor in self._found if id(tensor) not in known})


def _is_value(func: Callable[..., Any], result: Any) -> bool:
    """Whether a result hangs on the values of what it is made of; shapes and types do not."""
    name = getattr(func, "__name__", "")
    if name.startswith("new_") or name.endswith("_like"):
        return False
    return any(isinstance(t, Tensor) and t.is_floating_point() for t in tree_leaves(result))
