"""The outcome of one of ONNX's tests, run in a worker process."""

import os
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
from onnx.backend.test import BackendTest

from odtc.core.errors import DeviceError, OdtcError
from odtc.onnx_backend import OdtcBackend, Prepared

# ONNX's runner prepares its large models there.
os.environ["ONNX_HOME"] = os.path.join(tempfile.gettempdir(), "odtc-conformance")
_SUFFIX = "_cpu"


class Kind(StrEnum):
    """How a test ends."""

    PASSED = "passed"
    REFUSED = "refused"
    WRONG = "wrong"
    FAULT = "fault"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test.

    Attributes:
        kind: a fault is an exception that is no error of odtc's, a crash or a hang.
        reason: why it did not pass.
        bound: inputs that the program had as constants.
        operators: types of the model's nodes.
        is_folded: whether it had all of them so: then what it computes is known when it is
            compiled, mostly by ONNX's reference implementation.
    """

    kind: Kind
    reason: str = ""
    bound: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    is_folded: bool = False


class _Recorder(OdtcBackend):
    """Remembers the model that it prepared last."""

    last: Prepared | None = None
    operators: tuple[str, ...] = ()

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        cls.operators = tuple(dict.fromkeys(node.op_type for node in model.graph.node))
        cls.last = super().prepare(model, device, **kwargs)
        return cls.last


class _Compared(BackendTest):
    """Compares results as ONNX does, but for those that are rounding errors where nothing is."""

    @classmethod
    def assert_similar_outputs(
        cls,
        ref_outputs: Sequence[Any],
        outputs: Sequence[Any],
        rtol: float,
        atol: float,
        model_dir: str | None = None,
    ) -> None:
        if _Recorder.operators == ("DFT",):
            # What numpy leaves of the largest number, where a sum over all of them is zero.
            largest = max(float(np.abs(each).max()) for each in ref_outputs)
            atol = max(atol, largest * float(np.finfo(np.float32).eps))
        super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, model_dir)


@cache
def _tests() -> dict[str, Any]:
    # Many tests draw their data: so they are the same in each process.
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = _Compared(_Recorder, __name__)._test_items
    return {
        f"{group.removesuffix('Model').lower()}/{name.removesuffix(_SUFFIX)}": item.func
        for group, items in groups.items()
        for name, item in items.items()
        if name.endswith(_SUFFIX)
    }


def names() -> list[str]:
    """All tests, as `group/name`."""
    return sorted(_tests())


def check(name: str) -> Outcome:
    """Runs a test."""
    _Recorder.last, _Recorder.operators = None, ()
    kind, reason = _run(name)
    bound = tuple(_Recorder.last.bound) if _Recorder.last else ()
    is_folded = bool(bound) and _Recorder.last is not None and _Recorder.last.is_folded
    return Outcome(kind, reason, bound, _Recorder.operators, is_folded)


def _run(name: str) -> tuple[Kind, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _tests()[name](None)
        except AssertionError as error:
            return Kind.WRONG, str(error).strip()
        except DeviceError as error:
            return Kind.FAULT, f"{type(error).__name__}: {error}"
        except OdtcError as error:
            return Kind.REFUSED, f"{type(error).__name__}: {error}"
        except Exception as error:
            where = traceback.format_exc(limit=-6)
            return Kind.FAULT, f"{type(error).__name__}: {str(error)[:500]}\n{where}"
    return Kind.PASSED, ""
