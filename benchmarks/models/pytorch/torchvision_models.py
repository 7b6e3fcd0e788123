"""torchvision, imported so that it also works on a machine whose torch has no CUDA.

PyPI's torchvision is built for the torch with CUDA. Beside a CPU-only torch its compiled operators
do not load, and the module that describes their shapes fails the whole import. No model here uses
those operators, so that module is replaced by an empty one.
"""

import importlib
import sys
import types
from typing import Any

import torch

if torch.version.cuda is None:
    sys.modules.setdefault(
        "torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations")
    )

models: Any = importlib.import_module("torchvision.models")
