"""Restores a module's state: exporters run its forward, which changes more than one expects."""

import contextlib
import io
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Attributes that hold a tensor's hooks, by number.
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def state_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The tensors of a module's `state_dict` themselves, by name; a tied one under each name."""
    state = module.state_dict(keep_vars=True)
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def own_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by the path of their place, those outside `state_dict` too."""
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


@contextlib.contextmanager
def kept(module: nn.Module) -> Iterator[None]:
    """A block after which modes, buffers, hooks and random numbers are as they were before."""
    modes = [(part, part.training) for part in module.modules()]
    held = [(part, dict(part._buffers)) for part in module.modules()]
    buffers = [(value, value.detach().clone()) for value in module.buffers()]
    hooks = [(p, {name: {*_hooks(p, name)} for name in HOOKS}) for p in module.parameters()]
    drawn = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        for part, training in modes:
            part.training = training
        for part, tensors in held:
            part._buffers.update(tensors)  # a forward may put others in their place
        with torch.no_grad():
            for value, before in buffers:
                value.copy_(before)
        for parameter, before in hooks:
            for name in HOOKS:  # a forward may add some, each time that it is called
                held = _hooks(parameter, name)
                for key in held.keys() - before[name]:
                    del held[key]
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])


def _hooks(parameter: Tensor, name: str) -> dict[int, Any]:
    """The hooks of a parameter, by PyTorch's own numbers."""
    found = getattr(parameter, name, None)
    return {} if found is None else found


@contextlib.contextmanager
def in_eval(module: nn.Module) -> Iterator[None]:
    """A block in which all of a module is in inference mode."""
    modes = [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A block without exporters' output: graphs, from C++ too, and advice on their options."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), _no_output():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(disabled)


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """Keeps all output within the block off stdout, which is for data."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            sys.__stdout__.flush()  # pyright: ignore[reportOptionalMemberAccess]
            saved = os.dup(1)
        except (AttributeError, OSError, ValueError):  # there is none
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)
            os.close(nowhere)
