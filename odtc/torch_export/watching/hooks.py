"""Gradients that the module's own code changes: by hooks, and by autograd functions.

A file has the values that they see, and its derivative is that of those values.
"""

import inspect
from collections.abc import Iterable
from typing import Any

from torch import Tensor, autograd, nn
from torch.nn.modules import module as modules
from torch.nn.modules._functions import BackwardHookFunction

from odtc.torch_export.watching.kept import HOOKS

Function = type[autograd.Function]

_OF_MODULES = ("_backward_hooks", "_backward_pre_hooks")
_OF_ALL_MODULES = ("_global_backward_hooks", "_global_backward_pre_hooks")


def hooked_parameters(module: nn.Module) -> list[str]:
    """Names of the parameters that have hooks on their gradient."""
    return [name for name, p in module.named_parameters() if _any(p, HOOKS)]


def hooked_parts(module: nn.Module) -> list[str]:
    """Describes the parts of a module that have hooks on their backward pass."""
    own = [f"part {name!r}" for name, part in module.named_modules() if _any(part, _OF_MODULES)]
    return own + ["every part"] * _any(modules, _OF_ALL_MODULES)


def functions_behind(results: Iterable[Tensor]) -> set[Function]:
    """The autograd functions of Python that tensors were computed by, by autograd's graph."""
    nodes = {result.grad_fn for result in results} - {None}
    left = list(nodes)
    while left:
        more = {node for node, _ in left.pop().next_functions} - {None} - nodes  # pyright: ignore[reportOptionalMemberAccess]
        nodes |= more
        left += more
    classes = {getattr(node, "_forward_cls", None) for node in nodes}
    return {kind for kind in classes if kind is not None}


def applied(called: Any) -> Function | None:
    """The autograd function that a C function is the `apply` of; None of all others.

    Up to PyTorch 2.13 a method in Python calls it; later ones have no frame there.
    """
    kind = getattr(called, "__self__", None)
    is_function = isinstance(kind, type) and issubclass(kind, autograd.Function)
    return kind if is_function and called.__name__ == "apply" else None


def described(functions: Iterable[Function], parts: Iterable[str]) -> list[str]:
    """Autograd functions, each with its line.

    Args:
        functions: in the order in which they were found.
        parts: with hooks, which PyTorch calls by an autograd function of its own.
    """
    known = {BackwardHookFunction} if list(parts) else set()
    return sorted(_described(kind) for kind in set(functions) - known)


def _described(kind: Function) -> str:
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    place = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"{kind.__name__}{place}"


def _any(owner: object, names: Iterable[str]) -> bool:
    return any(getattr(owner, name, None) for name in names)
