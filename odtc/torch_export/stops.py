"""Where a forward stops the gradient: `detach`, `data`, and blocks under `no_grad`."""

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_DETACHING = {Tensor.detach, Tensor.detach_, Tensor.data.__get__}  # pyright: ignore[reportAttributeAccessIssue]
_OWN = (Path(torch.__file__).parent, Path(__file__).parent)

Stop = tuple[str, Tensor]


class Stops(TorchFunctionMode):
    """A block in which the calls are noted that tensors with a gradient leave it at."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Stop] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs the function, and notes its place."""
        result = func(*args, **(kwargs or {}))
        if (func in _DETACHING or not torch.is_grad_enabled()) and _is_value(func, result):
            held = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)]
            self._found += [(_place(), tensor) for tensor in held if tensor.requires_grad]
        return result

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


def _place() -> str:
    """The innermost line that is neither PyTorch's nor odtc's."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if not any(folder in path.parents for folder in _OWN):
            return f"{frame.filename}, line {frame.lineno}"
    return "a place that is not known"
