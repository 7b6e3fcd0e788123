"""torchvision, imported so that it also works beside a torch that it was not built for.

PyPI's torchvision is built for the torch with CUDA. Beside a CPU-only torch its compiled operators
do not load, and the module that describes their shapes fails the whole import: that of timm,
transformers and PEFT, too, which import torchvision where it is installed. Where there are no
operators, that module is an empty one.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_SHAPES = "torchvision._meta_registrations"


class _Finder(MetaPathFinder, Loader):
    """Finds an empty module in place of that of the shapes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds it once torchvision, which loads its operators first, imports it without them."""
        if fullname != _SHAPES:
            return None
        import torch

        return None if hasattr(torch.ops.torchvision, "nms") else ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Leaves it empty."""


def import_torchvision_anyway() -> None:
    """From now on, torchvision can be imported; this itself imports neither it nor torch."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
