"""Finds where a forward changes the gradient: `detach`, `data`, `no_grad`, and hooks."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
from torch import Tensor, autograd
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from odtc.torch_export.watching.hooks import Function, applied
from odtc.torch_export.watching.lines import user_line

_DETACHING = {Tensor.detach, Tensor.detach_, Tensor.data.__get__}  # pyright: ignore[reportAttributeAccessIssue]
_HOOKING = {Tensor.register_hook, Tensor.register_post_accumulate_grad_hook}
# The same of what autograd computed a tensor by, `tensor.grad_fn`; these are functions in C.
_HOOKING_NODES = {"register_hook", "register_prehook"}
_TORCH = Path(torch.__file__).parent

Stop = tuple[str, Tensor]


class Stops(TorchFunctionMode):
    """A block that records the calls that change a gradient.

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
        self._applied: list[Function] = []
        self._profiled: Any = None

    def __enter__(self) -> Self:
        """Begins the block; only a profile function sees calls of C functions."""
        self._profiled = sys.getprofile()
        sys.setprofile(self._note_call)
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Ends the block."""
        super().__exit__(*raised)
        sys.setprofile(self._profiled)

    def _note_call(self, frame: FrameType, event: str, called: Any) -> None:
        """Notes autograd functions and hooks of nodes; passes all on to the former profiler."""
        if event.startswith("c_") and (function := applied(called)):
            if event == "c_call":
                self._applied.append(function)
            elif self._applied:  # the block may begin within one
                self._applied.pop()
        hooks = event == "c_call" and called.__name__ in _HOOKING_NODES
        # PyTorch's own are those of parts of a module, which are reported as such.
        is_own = _TORCH in Path(frame.f_code.co_filename).parents if hooks else True
        if not is_own and isinstance(called.__self__, autograd.graph.Node):
            self.hooked.add(user_line())
        if self._profiled is not None:
            self._profiled(frame, event, called)

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
        if held and self._applied:
            self.functions.add(self._applied[-1])
        else:
            self._found += [(user_line(), tensor) for tensor in held]

    def places(self, still: Iterable[Tensor]) -> list[str]:
        """Lines at which a gradient stops, but for weights that have none anywhere."""
        known = {id(tensor) for tensor in still}
        return sorted({place for place, tensor in self._found if id(tensor) not in known})


def _is_value(func: Callable[..., Any], result: Any) -> bool:
    """Whether a result depends on its operands' values, not only on shapes and types."""
    name = getattr(func, "__name__", "")
    if name.startswith("new_") or name.endswith("_like"):
        return False
    return any(isinstance(t, Tensor) and t.is_floating_point() for t in tree_leaves(result))
