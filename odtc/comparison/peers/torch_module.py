"""Trains a PyTorch module itself, with `torch.optim`: the reference for an export of it."""

import copy
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": F.cross_entropy,
    # One label a token, and the classes last.
    "cross-entropy{axis=2}": lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()),
    "bce-with-logits": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
}


class ModuleTrainer:
    """Trains a copy of a module by SGD.

    Args:
        module: in training mode; parameters that need no gradient stay.
        loss: one of `LOSSES`.
        lr: learning rate.
        momentum: of SGD, without dampening.
        dtype: of all arithmetic; torch.float64 makes a reference of high precision.
        compiled: whether `torch.compile` compiles it at its first step.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: str,
        *,
        lr: float,
        momentum: float = 0.0,
        dtype: torch.dtype = torch.float32,
        compiled: bool = False,
    ):
        self._module = copy.deepcopy(module).to(dtype)
        self._loss = LOSSES[loss]
        self._dtype = dtype
        self._optimizer = torch.optim.SGD(
            [p for p in self._module.parameters() if p.requires_grad], lr, momentum=momentum
        )
        self._norms = {
            name: part
            for name, part in self._module.named_modules()
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training
        }
        self._first = {
            name: value.copy()
            for name, value in self._arrays().items()
            if name.endswith("running_var")
        }
        self._steps = 0
        self._samples: dict[str, int] = {}
        for name, part in self._norms.items():
            part.register_forward_pre_hook(self._counter(name))
        if compiled:
            self._module.compile()

    def step(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step on the inputs, in the order of `forward`; the loss before the update."""
        self._optimizer.zero_grad()
        output = self._module(*(self._tensor(array) for array in x.values()))
        loss = self._loss(output, self._tensor(y))
        loss.backward()
        self._optimizer.step()
        self._steps += 1
        return loss.item()

    def trained(self) -> list[str]:
        """Names of the parameters that the last step gave a gradient."""
        return [name for name, value in self._module.named_parameters() if value.grad is not None]

    def state(self) -> dict[str, np.ndarray]:
        """All floating-point tensors, by name in `state_dict`; running variances as ONNX has them.

        ONNX takes the variance of a batch over n, PyTorch over n - 1. Where all k batches had the
        same size, either running variance is m^k of the first plus a sum that is proportional to
        the variances of the batches, so that PyTorch's sum is n / (n - 1) times ONNX's.
        """
        state = self._arrays()
        for name, samples in self._samples.items():
            key, momentum = f"{name}.running_var", self._norms[name].momentum
            assert momentum is not None
            kept = (1 - momentum) ** self._steps * self._first[key]
            state[key] = kept + (state[key] - kept) * ((samples - 1) / samples)
        return state

    def _arrays(self) -> dict[str, np.ndarray]:
        """Views of the floating-point tensors."""
        tensors = self._module.state_dict()
        return {k: v.numpy() for k, v in tensors.items() if v.is_floating_point()}

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _counter(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        """A hook that notes how many values a mean is taken of."""

        def count(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self._samples[name] = inputs[0].numel() // inputs[0].shape[1]

        return count
