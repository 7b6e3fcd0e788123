"""ONNX's recurrent operators in PyTorch, a step at a time, written from the standard."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Attributes = dict[str, Any]

# Name to (function, how many of alpha and beta it takes, their defaults).
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], tuple[float, ...]]] = {
    "Affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "Elu": (F.elu, (1.0,)),
    "HardSigmoid": (lambda x, a, b: (a * x + b).clamp(0, 1), (0.2, 0.5)),
    "LeakyRelu": (F.leaky_relu, (0.01,)),
    "Relu": (torch.relu, ()),
    "ScaledTanh": (lambda x, a, b: a * torch.tanh(b * x), (1.0, 1.0)),
    "Sigmoid": (torch.sigmoid, ()),
    "Softplus": (F.softplus, ()),
    "Softsign": (F.softsign, ()),
    "Tanh": (torch.tanh, ()),
    "ThresholdedRelu": (lambda x, a: torch.where(x > a, x, 0.0), (1.0,)),
}
_DEFAULTS = {
    "GRU": ["Sigmoid", "Tanh"],
    "LSTM": ["Sigmoid", "Tanh", "Tanh"],
    "RNN": ["Tanh"],
}


def _functions(attrs: Attributes, kind: str, directions: int) -> list[Callable[[Tensor], Tensor]]:
    names = [
        each.decode() if isinstance(each, bytes) else each
        for each in attrs.get("activations", _DEFAULTS[kind] * directions)
    ]
    alphas, betas = (list(attrs.get(f"activation_{which}", [])) for which in ("alpha", "beta"))
    found = []
    for name in names:
        function, usual = _ACTIVATIONS[name]
        numbers = [
            given.pop(0) if given else default
            for default, given in zip(usual, (alphas, betas), strict=False)
        ]
        found.append(lambda x, function=function, numbers=numbers: function(x, *numbers))
    return found


def _cell(
    kind: str, attrs: Attributes, functions: list[Callable[[Tensor], Tensor]], size: int
) -> Callable[..., tuple[Tensor, ...]]:
    limit = attrs.get("clip")

    def clip(x: Tensor) -> Tensor:
        return x if limit is None else x.clamp(-limit, limit)

    def rnn(xw: Tensor, rb: Tensor, r: Tensor, _: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return (functions[0](clip(xw + h @ r.T + rb)),)

    def gru(xw: Tensor, rb: Tensor, r: Tensor, _: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        (x_z, x_r, x_h), (r_z, r_r, r_h) = xw.split(size, 1), r.split(size)
        b_z, b_r, b_h = rb.split(size)
        z = functions[0](clip(x_z + h @ r_z.T + b_z))
        reset = functions[0](clip(x_r + h @ r_r.T + b_r))
        if attrs.get("linear_before_reset"):
            candidate = x_h + reset * (h @ r_h.T + b_h)
        else:
            candidate = x_h + (reset * h) @ r_h.T + b_h
        return ((1 - z) * functions[1](clip(candidate)) + z * h,)

    def lstm(
        xw: Tensor, rb: Tensor, r: Tensor, p: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, ...]:
        x_i, x_o, x_f, x_c = (xw + h @ r.T + rb).split(size, 1)
        p_i, p_o, p_f = p.split(size)
        i = functions[0](clip(x_i + p_i * c))
        f = 1 - i if attrs.get("input_forget") else functions[0](clip(x_f + p_f * c))
        new = f * c + i * functions[1](clip(x_c))
        o = functions[0](clip(x_o + p_o * new))
        return o * functions[2](new), new

    return {"RNN": rnn, "GRU": gru, "LSTM": lstm}[kind]


def _recurrent(kind: str) -> Callable[..., tuple[Tensor, ...]]:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]

    def apply(
        attrs: Attributes,
        x: Tensor,
        w: Tensor,
        r: Tensor,
        b: Tensor | None = None,
        lengths: Tensor | None = None,
        *more: Tensor | None,
    ) -> tuple[Tensor, ...]:
        first = attrs.get("layout", 0)
        x = x.transpose(0, 1) if first else x
        steps, batch, _ = x.shape
        directions, _, size = r.shape
        b = torch.zeros(directions, 2 * gates * size, dtype=x.dtype) if b is None else b
        states = [m if m is None or not first else m.transpose(0, 1) for m in more[:2]]
        p = more[2] if len(more) > 2 else None
        p = torch.zeros(directions, 3 * size, dtype=x.dtype) if p is None else p
        ends = torch.full((batch,), steps) if lengths is None else lengths
        functions = _functions(attrs, kind, directions)
        each = len(functions) // directions
        outputs, lasts = [], []
        for at in range(directions):
            cell = _cell(kind, attrs, functions[at * each : (at + 1) * each], size)
            b_w, b_r = b[at].chunk(2)
            state = tuple(
                torch.zeros(batch, size, dtype=x.dtype) if given is None else given[at]
                for given in (*states, None, None)[: 2 if kind == "LSTM" else 1]
            )
            reverse = at == 1 or attrs.get("direction") == "reverse"
            row: dict[int, Tensor] = {}
            for t in reversed(range(steps)) if reverse else range(steps):
                running = (ends > t)[:, None]
                new = cell(x[t] @ w[at].T + b_w, b_r, r[at], p[at], *state)
                state = tuple(torch.where(running, a, b_) for a, b_ in zip(new, state, strict=True))
                row[t] = torch.where(running, new[0], 0.0)
            outputs.append(torch.stack([row[t] for t in range(steps)]))
            lasts.append(state)
        y = torch.stack(outputs, 1)
        last = [torch.stack(parts) for parts in zip(*lasts, strict=True)]
        if first:
            y, last = y.permute(2, 0, 1, 3), [part.transpose(0, 1) for part in last]
        return (y, *last)

    return apply


RECURRENT: dict[str, Callable[..., Any]] = {kind: _recurrent(kind) for kind in _DEFAULTS}
