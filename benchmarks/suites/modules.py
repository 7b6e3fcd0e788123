"""PyTorch's modules of the suites: `modules.resnet50()`, with the weights of its export."""

from collections.abc import Callable
from functools import partial

from torch import nn

from benchmarks.models.pytorch.spec import make
from benchmarks.models.pytorch.table import FULL
from benchmarks.models.zoo import zoo_model
from benchmarks.suites.zoo_module import ZooModule

_ZOO = "zoo/"


def __getattr__(name: str) -> Callable[[], nn.Module]:
    if name.startswith(_ZOO):
        return lambda: ZooModule(zoo_model(name.removeprefix(_ZOO)))
    if name not in FULL:
        raise AttributeError(f"no model {name!r}; there are {', '.join(FULL)}")
    return partial(make, FULL[name])
