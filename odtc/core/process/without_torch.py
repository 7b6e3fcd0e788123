"""TVM without PyTorch.

TVM imports PyTorch, where it is installed, to take its tensors: odtc gives it none. That is half of
the time in which a command starts, and 200 MB. In a process of our own it is not to be found while
TVM is imported; a command that wants it imports it itself.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_TVM, _TORCH = ("tvm", "tvm_ffi"), "torch"


class _Finder(MetaPathFinder):
    """Finds TVM, and hides PyTorch while that runs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds modules of TVM, to run without PyTorch; none where PyTorch is there already."""
        if fullname.split(".", maxsplit=1)[0] not in _TVM or _TORCH in sys.modules:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found and found.loader:
            run = found.loader.exec_module

            def without(module: ModuleType) -> None:
                # An import of what is None fails as one of what is not installed.
                sys.modules[_TORCH] = None  # pyright: ignore[reportArgumentType]
                try:
                    run(module)
                finally:
                    sys.modules.pop(_TORCH, None)

            found.loader.exec_module = without
        return found


def leave_out_torch() -> None:
    """From now on, TVM's modules are imported without PyTorch."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
