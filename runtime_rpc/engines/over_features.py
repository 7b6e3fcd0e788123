"""A step in two parts in the native runtime: what frozen layers make of samples, and the rest."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np

from odtc.core.artifact.manifest import Features
from odtc.core.specs import Argument


class OverFeatures:
    """The two parts of evaluations, and the first one of the step.

    Args:
        put: gives an input or a feature to the next micro-batch.
        run: what a function of the program, by its name, makes of that; whether with averages.
        guarded: makes a block in which both may be called.

    Attributes:
        writes: how often frozen weights were given other values; features of before are wrong.
    """

    def __init__(
        self,
        put: Callable[[Argument, np.ndarray], None],
        run: Callable[[str, bool], np.ndarray],
        guarded: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._put, self._call, self._guarded = put, run, guarded
        self.writes = 0

    def features(
        self, of: Features, arrays: Mapping[Argument, np.ndarray]
    ) -> dict[Argument, np.ndarray]:
        """What frozen layers make of the inputs of one micro-batch.

        Args:
            of: the function that goes on from them.
            arrays: of the inputs of a call.

        Raises:
            DeviceError: the runtime failed.
        """
        return of.cut(self._run(of.first, arrays, ema=False))

    def evaluate(
        self, of: Features, arrays: Mapping[Argument, np.ndarray], instead: Mapping[str, Argument]
    ) -> np.ndarray:
        """An output of one micro-batch.

        Args:
            of: the evaluation.
            arrays: its features, and the inputs that it reads beside.
            instead: the averages of parameters, or nothing.

        Raises:
            DeviceError: the runtime failed.
        """
        return self._run(of.over, arrays, ema=bool(instead))

    def _run(self, name: str, arrays: Mapping[Argument, np.ndarray], *, ema: bool) -> np.ndarray:
        with self._guarded():
            for item, array in arrays.items():
                self._put(item, array)
            return self._call(name, ema)
