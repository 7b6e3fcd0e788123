"""At which length the native runtime takes what it is fed, where a step has several."""

from collections.abc import Iterable

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import FED_ROLES, Argument
from odtc.runtime_rpc.native.binding import NativeTrainer


class Lengths:
    """The lengths of a step in the native runtime, known by the arguments that are of one alone.

    Args:
        manifest: of the step.
        native: that takes it.

    Attributes:
        now: the length of what was fed last; 0 where the step has one size.
        tensors: memory of what shorter lengths are fed: the beginning of what the longest is.
    """

    def __init__(self, manifest: Manifest, native: NativeTrainer) -> None:
        self._native, self.now = native, manifest.length
        self.tensors: dict[Argument, np.ndarray] = {}
        self._of: dict[Argument, int] = {}
        for length, each in manifest.lengths.items():
            for number, item in enumerate(each.arguments):
                if item.role in FED_ROLES and not _is_everywhere(item, manifest):
                    self._of[item] = length
                    if length != manifest.length:
                        part = native.part(number, item.spec.shape, item.spec.dtype)
                        self.tensors[item] = part

    def take(self, fed: Iterable[Argument]) -> None:
        """Takes what follows at the length of what is fed."""
        length = next((self._of[item] for item in fed if item in self._of), self.now)
        if length != self.now:
            self._native.set_length(length)
            self.now = length


def _is_everywhere(item: Argument, manifest: Manifest) -> bool:
    """Whether an argument is the same at each length."""
    return all(item in each.arguments for each in manifest.shorter_ones) and (
        item in manifest.arguments
    )
