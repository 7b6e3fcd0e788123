"""PyTorch's eager step on the same GPU.

In mixed precision it is what PyTorch's own recipe of it has: `torch.autocast` with float16 around
the forward pass, and a `GradScaler` that begins where odtc's loss scale does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch


class TorchStep:
    """A step in float32 without TF32, or in mixed precision.

    It is sent the next batch meanwhile, as odtc's is.

    Args:
        module: on the GPU.
        loss: of what the module returns and the labels.
        optimizer: of the module's parameters.
        loss_scale: of the first step in mixed precision; None in float32.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[[Any, torch.Tensor], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        *,
        loss_scale: float | None = None,
    ) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._module, self._loss, self._optimizer = module, loss, optimizer
        mixed = loss_scale is not None
        self._autocast = torch.autocast("cuda", torch.float16, enabled=mixed)
        self._scaler = torch.amp.GradScaler("cuda", init_scale=loss_scale or 1.0, enabled=mixed)
        self._uploads = torch.cuda.Stream()
        self._pinned: list[torch.Tensor] = []
        self._next: list[torch.Tensor] = []

    def _send(self) -> None:
        with torch.cuda.stream(self._uploads):
            self._next = [each.cuda(non_blocking=True) for each in self._pinned]

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step; the loss. All calls get the same batch, which waits in pinned memory."""
        if not self._pinned:
            self._pinned = [torch.from_numpy(each).pin_memory() for each in (*x.values(), y)]
            self._send()
        torch.cuda.current_stream().wait_stream(self._uploads)
        *inputs, label = self._next
        self._optimizer.zero_grad()
        with self._autocast:
            loss = self._loss(self._module(*inputs), label)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._send()
        return loss.item()
