"""Steps with adapters that several tests need, each compiled once."""

from collections.abc import Callable
from functools import cache

import pytest
from torch import nn

import odtc
from tests.runtime_rpc.adapters.sides import compiled

StepOf = Callable[[str], tuple[nn.Module, odtc.Artifact]]


@pytest.fixture(scope="package")
def step_of(tmp_path_factory: pytest.TempPathFactory) -> StepOf:
    """A model by its name, and its step."""
    return cache(lambda name: compiled(name, tmp_path_factory.mktemp(name)))
