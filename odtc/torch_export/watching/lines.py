"""The line of the user's code that a call comes from, for messages."""

import traceback
from pathlib import Path

import torch

_OWN = (Path(torch.__file__).parent, Path(__file__).parents[1])


def user_line() -> str:
    """The innermost line that is neither PyTorch's nor odtc's."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if not any(folder in path.parents for folder in _OWN):
            return f"{frame.filename}, line {frame.lineno}"
    return "a place that is not known"
