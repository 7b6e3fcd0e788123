"""A user's own Python, named by `file.py:name` or `package.module:name`, and called."""

import importlib
import importlib.util
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from odtc.core.errors import UsageError
from odtc.torch_export.torchvision_anyway import import_torchvision_anyway


def callable_of(text: str) -> Any:
    """Returns the callable that a text names; importing it runs the user's code.

    A file finds the modules beside it, as a script does.

    Raises:
        UsageError: there is none, it cannot be called, the code fails, or the text has another
            form.
    """
    source, _, name = text.rpartition(":")
    if not source or not name:
        raise UsageError(
            f"{text!r} names nothing that makes a module",
            hint="write FILE.py:make, with a function",
        )
    import_torchvision_anyway()
    try:
        found = getattr(_imported(source), name)
    except (ImportError, AttributeError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no module {text!r}: {error}", hint="write FILE.py:make, with a function"
        ) from error
    except Exception as error:
        raise failed(source, error) from error
    if not callable(found):
        raise UsageError(f"{text!r} cannot be called", hint="name a function that makes a module")
    return found


def failed(source: str, error: Exception) -> UsageError:
    """The error that locates the failure in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).name == Path(source).name]
    line = f", line {own[-1].lineno}" if own else ""
    return UsageError(f"the code fails: {type(error).__name__}: {error}", where=f"{source}{line}")


def _imported(source: str) -> types.ModuleType:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    folder = str(Path(source).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(Path(source).stem, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Classes of the file are looked up there, by dataclasses for one.
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module
