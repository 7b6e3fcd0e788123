"""torchvision's models, also beside a torch that torchvision was not built for."""

import importlib
from typing import Any

from odtc.torch_export.torchvision_anyway import import_torchvision_anyway

import_torchvision_anyway()
models: Any = importlib.import_module("torchvision.models")
