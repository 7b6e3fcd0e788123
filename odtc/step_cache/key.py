"""The key of a step that is kept: a hash of all that it follows from.

What the user asks for is read before it is hashed, so that `adam` and `odtc.Adam()` have one key.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odtc.autoschedule.tuning.database import user_database
from odtc.autoschedule.tuning.target_records import shipped
from odtc.backends.targets import CPU, Target
from odtc.core.artifact.bundle import file_sha256
from odtc.core.disk.package_files import is_as_loaded
from odtc.core.errors import OdtcError
from odtc.driver.drafts.normalizing import as_normalize
from odtc.driver.options.option import arguments_of
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.losses.given import LossGraph
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.weights.in_file import UNREADABLE, elements_in_files, require_size
from odtc.step_cache.made_by import gpu_of_this_machine, made_by
from odtc.step_cache.store import step_store

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (type(None), bool, int, float, str)


class _UnknownError(Exception):
    """A value of which nobody knows what it says."""


def step_key(
    model: str | os.PathLike[str], target: Target, options: StepOptions, budget: int | str | None
) -> str | None:
    """The key of a step; None where it is not kept.

    Args:
        model: path of the ONNX file. Files of external data are no part of the key.
        target: what it is compiled for.
        options: of the step.
        budget: of its memory; see `odtc.compile`.
    """
    path = Path(model)
    try:
        # Where there can be no store, the files of this package do not matter.
        if not path.is_file() or not (step_store().problem or is_as_loaded()):
            return None
        require_size(path)
        asked = {
            "made by": made_by(target),
            "measured on": _measured_on(target, options),
            "model": [path.name, file_sha256(path)],
            "target": _plain(target),
            "budget": budget,
            "options": _plain(_read(options)),
            "files": _files(options),
        }
        text = json.dumps(asked)
    except (OSError, OdtcError, RecursionError, TypeError, ValueError, _UnknownError):
        # Who compiles says what is wrong.
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _read(options: StepOptions) -> dict[str, Any]:
    """The options with the loss and the optimizer read."""
    update = as_update(SGD() if options.optimizer is None else options.optimizer)
    return arguments_of(options) | {
        "loss": terms_of(options.loss),
        "optimizer": update,
        "normalize": as_normalize(options.normalize),
    }


def named_files(options: StepOptions) -> list[Path]:
    """Files that options name, and the user's measurements; not all are there."""
    named = [options.layout or "", options.database or user_database()]
    return [Path(each) for each in (*_losses(options), *named)]


def _measured_on(target: Target, options: StepOptions) -> str:
    """The GPU of this machine and its driver, where measurements may be those of them.

    Nothing else of a compile follows from a GPU that is here, so it is asked only then.
    """
    database = Path(options.database or user_database())
    if target.kind == CPU or not options.tuned or options.device is not None:
        return ""
    return gpu_of_this_machine(target) if shipped(target.name) or database.exists() else ""


def _losses(options: StepOptions) -> list[str | os.PathLike[str]]:
    """Files of losses; none where a loss is none, which who compiles says."""
    try:
        terms = terms_of(options.loss)
    except OdtcError:
        return []
    return [term.loss.path for term in terms if isinstance(term.loss, LossGraph)]


def _files(options: StepOptions) -> list[tuple[str, str]]:
    """Files that options name, each with its hash; that of one that is not there is empty.

    Raises:
        _UnknownError: one of them has others beside it.
    """
    if any(_has_others(Path(path)) for path in _losses(options)):
        raise _UnknownError
    return [(os.fspath(each), _sha256(each)) for each in named_files(options)]


def _has_others(path: Path) -> bool:
    """Whether elements of a loss lie beside it, or nobody can tell."""
    try:
        return any(True for _ in elements_in_files(path))
    except UNREADABLE:
        return True


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except (FileNotFoundError, IsADirectoryError):
        return ""


def _plain(value: Any) -> Any:
    """A value as JSON says it, so that two that differ are two texts.

    Raises:
        _UnknownError: it is of a kind that is not known here.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.hasobject:
            # Its bytes are addresses of what it holds.
            raise _UnknownError
        content = hashlib.sha256(array.tobytes()).hexdigest()
        return ["array", array.dtype.str, array.shape, content]
    kind = type(value)
    # What a class of somebody else does is in no file of this package.
    if dataclasses.is_dataclass(kind) and kind.__module__.partition(".")[0] == _PACKAGE:
        fields = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return [f"{kind.__module__}.{kind.__qualname__}", _plain(fields)]
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    raise _UnknownError
