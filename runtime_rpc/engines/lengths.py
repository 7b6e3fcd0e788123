"""At which length the native runtime takes what it is fed, where a step has several."""

from collections.abc import Callable, Iterable

from odtc.core.artifact.manifest import Manifest, StepPlan
from odtc.core.specs import FED_ROLES, Argument


class Lengths:
    """The lengths of a step in the native runtime, known by the arguments that are of one alone.

    Args:
        manifest: of the step.
        set_length: of the runtime that takes it, here or on a device.

    Attributes:
        manifests: the step at each of its lengths, the longest first; the manifest alone where the
            step has one size.
        taken: the length of the last step, of the longest before the first one; 0 where the step
            has one size.
    """

    def __init__(self, manifest: Manifest, set_length: Callable[[int], object]) -> None:
        self._set_length, self._now = set_length, manifest.length
        self.taken = manifest.length
        self.manifests = tuple(manifest.lengths.values()) or (manifest,)
        self._plans = {each.length: each.plans[0] for each in self.manifests}
        common = set.intersection(*(set(each.arguments) for each in self.manifests))
        self._of = {
            item: each.length
            for each in self.manifests
            for item in each.arguments
            if item.role in FED_ROLES and item not in common
        }

    @property
    def plan(self) -> StepPlan:
        """The only one of the length of the last step, where the step has several lengths."""
        return self._plans[self.taken]

    def of(self, fed: Iterable[Argument]) -> int:
        """The length of what is fed; the longest where all of it is the same at each."""
        return next((self._of[item] for item in fed if item in self._of), self.manifests[0].length)

    def use(self, length: int) -> None:
        """Lets the runtime take what follows at a length; nothing where the step has one size."""
        if length and length != self._now:
            self.forget()
            self._set_length(length)
            self._now = length

    def took(self, length: int) -> None:
        """Says at which length the last step was taken, where the runtime stays."""
        self.taken = self._now = length

    def forget(self) -> None:
        """Says that the runtime may be at any length: a call that changes it is under way."""
        self._now = -1
