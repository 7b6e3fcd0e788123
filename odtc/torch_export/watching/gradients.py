"""Detects where PyTorch's gradient is not the derivative of what the forward computes.

ONNX has values alone: it cannot express a detached tensor, a block under `no_grad` or the padding
row of an embedding, and a derivative of the file goes through them.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.weight_list import WeightList
from odtc.frontend.graph import names_read
from odtc.torch_export.calls import ExampleCall, named_tensors
from odtc.torch_export.names import listed
from odtc.torch_export.watching.hooks import (
    described,
    functions_behind,
    hooked_parameters,
    hooked_parts,
)
from odtc.torch_export.watching.kept import kept, own_tensors
from odtc.torch_export.watching.stops import Stops


def check_embeddings(module: nn.Module) -> None:
    """Checks that embeddings have the gradient of their values.

    Raises:
        UnsupportedError: one changes its weights in the forward, or scales its gradient.
    """
    kinds = (nn.Embedding, nn.EmbeddingBag)
    other = [
        path
        for path, part in module.named_modules()
        if isinstance(part, kinds) and (part.max_norm is not None or part.scale_grad_by_freq)
    ]
    if other:
        raise UnsupportedError(
            f"embeddings have max_norm or scale_grad_by_freq, which ONNX cannot say: "
            f"{listed(other)}",
            where="module",
            hint="make them without",
        )


def padding_is_kept(part: nn.Module, shared: Iterable[int]) -> bool:
    """Whether an embedding's padding row is zeros that nothing else trains.

    What is looked up of it is then zero times something, and has no gradient, as in PyTorch.
    """
    return (
        isinstance(part, nn.Embedding)
        and part.padding_idx is not None
        and part.weight.requires_grad
        and id(part.weight) not in shared
        and not bool(part.weight[part.padding_idx].any())
    )


def shared_tensors(module: nn.Module) -> set[int]:
    """Identities of the parameters that occur several times in a module."""
    counts = Counter(id(tensor) for tensor in own_tensors(module).values())
    return {identity for identity, count in counts.items() if count > 1}


def padding_notes(module: nn.Module) -> list[str]:
    """Returns notes on embeddings whose padding row odtc trains and PyTorch does not."""
    shared = shared_tensors(module)
    other = [
        path
        for path, part in module.named_modules()
        if isinstance(part, nn.Embedding)
        and part.padding_idx is not None
        and part.weight.requires_grad
        and not padding_is_kept(part, shared)
    ]
    return other and [
        f"padding rows that are tied, or not zero, are trained where padding is fed, and PyTorch "
        f"does not train them: {listed(other)}"
    ]


@dataclass(frozen=True)
class Stopped:
    """Places where a training forward has no gradient, or another one.

    Attributes:
        parameters: names of those that no output depends on by autograd.
        places: lines at which the gradient stops of what has one elsewhere.
        functions: autograd functions, which have a gradient of their own, with their lines.
        hooked: parameters, parts and lines that have hooks on a gradient.
    """

    parameters: set[str]
    places: list[str]
    functions: list[str]
    hooked: list[str]

    def notes(self) -> list[str]:
        """Returns notes for the user about it."""
        said = {
            "the gradient is stopped where ONNX cannot say so; a step of the file has it there": (
                self.places
            ),
            "autograd functions stop or replace the gradient, and a step of the file has that of "
            "what they compute": self.functions,
            "hooks change these gradients, and a step of the file has none": self.hooked,
        }
        return [f"{text}: {listed(names)}" for text, names in said.items() if names]


def stops_of(module: nn.Module, call: ExampleCall, weights: WeightList) -> Stopped:
    """Finds where a forward stops or changes the gradient while the module trains."""
    own, parts = own_tensors(module), hooked_parts(module)
    leaves = {name: own[name] for name in weights.parameters if name in own}
    names = set(leaves)
    hooked = hooked_parameters(module) + parts
    # Buffers are restored after the derivative, which reads them.
    with kept(module), torch.enable_grad():
        with Stops() as stops:
            value = module(*call.args, **call.kwargs)
        results = named_tensors(value, "output").values()
        functions = stops.functions | functions_behind(results)
        sums = [result.sum().double() for result in results if result.requires_grad]
        if sums:
            names -= _reached(torch.stack(sums).sum(), leaves)
    return Stopped(
        names,
        stops.places(leaves[name] for name in names),
        described(functions, parts),
        hooked + sorted(stops.hooked),
    )


def _reached(total: Tensor, leaves: Mapping[str, Tensor]) -> set[str]:
    """Names of the leaves that have a gradient.

    No gradient is kept, as all of them together are as large as the weights: each goes where it
    comes to its leaf, whose `grad`, and hooks behind that, see nothing of it.
    """
    found = set()

    def noted(name: str, given: tuple[Tensor | None, ...]) -> tuple[None]:
        if given[0] is not None:
            found.add(name)
        return (None,)

    # Each leaf has one such node as long as a graph refers to it.
    nodes: dict[str, Any] = {name: leaf.view_as(leaf).grad_fn for name, leaf in leaves.items()}
    ends = {name: node.next_functions[0][0] for name, node in nodes.items()}
    hooks = [end.register_prehook(partial(noted, name)) for name, end in ends.items()]
    try:
        torch.autograd.backward(total, inputs=list(leaves.values()))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def stopped(model: onnx.ModelProto, names: set[str]) -> list[str]:
    """Returns parameters without a gradient that the file reads: it would train them."""
    read = {name for node in model.graph.node for name in names_read(node)}
    return sorted(names & read)


def frozen(weights: WeightList, names: Iterable[str]) -> WeightList:
    """The list with more parameters that are not trained."""
    more = tuple(names)
    return dataclasses.replace(
        weights,
        parameters=tuple(name for name in weights.parameters if name not in more),
        buffers=(*weights.buffers, *more),
        frozen=(*weights.frozen, *more),
    )
