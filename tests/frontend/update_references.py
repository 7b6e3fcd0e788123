"""Each optimizer beside one that shares no code with it: `torch.optim`, or the paper in float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

import odtc
from odtc.frontend.optimizers.optimizer import Optimizer

LR = 0.01

# From the weight and its gradients, one an update, to the weight after them; all in float64.
Reference = Callable[[np.ndarray, Sequence[np.ndarray]], np.ndarray]


def by_torch(kind: type[torch.optim.Optimizer], **options) -> Reference:
    """`torch.optim` in float64."""

    def train(start: np.ndarray, gradients: Sequence[np.ndarray]) -> np.ndarray:
        weight = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimizer = kind([weight], **{"lr": LR, **options})
        for gradient in gradients:
            weight.grad = torch.tensor(gradient, dtype=torch.float64)
            optimizer.step()
        return weight.detach().numpy()

    return train


def lamb(beta1: float, beta2: float, eps: float, decay: float) -> Reference:
    """You et al. 2020, algorithm 2, with the identity for phi."""

    def train(start: np.ndarray, gradients: Sequence[np.ndarray]) -> np.ndarray:
        x, m, v = start.astype(np.float64), 0.0, 0.0
        for t, g in enumerate(gradients, 1):
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + decay * x
            norms = np.linalg.norm(x), np.linalg.norm(r)
            x = x - LR * (norms[0] / norms[1] if all(norms) else 1.0) * r
        return x

    return train


def lion(beta1: float, beta2: float, decay: float) -> Reference:
    """Chen et al. 2023, algorithm 2."""

    def train(start: np.ndarray, gradients: Sequence[np.ndarray]) -> np.ndarray:
        x, m = start.astype(np.float64), 0.0
        for g in gradients:
            x = x - LR * (np.sign(beta1 * m + (1 - beta1) * g) + decay * x)
            m = beta2 * m + (1 - beta2) * g
        return x

    return train


@dataclass(frozen=True)
class Case:
    """An optimizer with options, and its reference."""

    optimizer: Optimizer
    reference: Reference = field(compare=False)


_T = torch.optim
CASES = {
    "sgd": Case(odtc.SGD(), by_torch(_T.SGD)),
    "sgd, momentum": Case(
        odtc.SGD(momentum=0.9, weight_decay=0.1),
        by_torch(_T.SGD, momentum=0.9, weight_decay=0.1),
    ),
    "sgd, dampening": Case(
        odtc.SGD(momentum=0.5, dampening=0.3), by_torch(_T.SGD, momentum=0.5, dampening=0.3)
    ),
    "sgd, nesterov": Case(
        odtc.SGD(momentum=0.9, nesterov=True, weight_decay=0.01),
        by_torch(_T.SGD, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": Case(odtc.Adam(), by_torch(_T.Adam)),
    "adam, options": Case(
        odtc.Adam(beta1=0.5, beta2=0.9, eps=1e-3, weight_decay=0.1),
        by_torch(_T.Adam, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1),
    ),
    "adam, no memory": Case(odtc.Adam(beta1=0.0), by_torch(_T.Adam, betas=(0.0, 0.999))),
    "adamw": Case(odtc.AdamW(), by_torch(_T.AdamW)),
    "adamw, options": Case(
        odtc.AdamW(beta1=0.8, beta2=0.99, eps=1e-5, weight_decay=0.3),
        by_torch(_T.AdamW, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.3),
    ),
    "rmsprop": Case(odtc.RMSProp(), by_torch(_T.RMSprop)),
    "rmsprop, momentum": Case(
        odtc.RMSProp(alpha=0.9, eps=1e-4, momentum=0.8, weight_decay=0.1),
        by_torch(_T.RMSprop, alpha=0.9, eps=1e-4, momentum=0.8, weight_decay=0.1),
    ),
    "rmsprop, centered": Case(
        odtc.RMSProp(alpha=0.95, centered=True), by_torch(_T.RMSprop, alpha=0.95, centered=True)
    ),
    "adagrad": Case(odtc.Adagrad(), by_torch(_T.Adagrad)),
    "adagrad, options": Case(
        odtc.Adagrad(lr_decay=0.1, weight_decay=0.1, initial_accumulator=0.5, eps=1e-3),
        by_torch(
            _T.Adagrad, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3
        ),
    ),
    "lamb": Case(odtc.LAMB(), lamb(0.9, 0.999, 1e-6, 0.01)),
    "lamb, options": Case(
        odtc.LAMB(beta1=0.5, beta2=0.9, eps=1e-3, weight_decay=0.0), lamb(0.5, 0.9, 1e-3, 0.0)
    ),
    "lion": Case(odtc.Lion(), lion(0.9, 0.99, 0.0)),
    "lion, options": Case(odtc.Lion(beta1=0.5, beta2=0.8, weight_decay=0.1), lion(0.5, 0.8, 0.1)),
}
