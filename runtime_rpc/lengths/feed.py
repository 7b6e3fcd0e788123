"""Feeds a step at the shortest length that holds a batch, and evaluates at one."""

from collections.abc import Mapping

import numpy as np

from odtc.core.artifact.manifest import Features, Manifest
from odtc.core.specs import Role
from odtc.runtime_rpc.engines.engine import Engine, Instead
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.feed.batches import Fed, Feed, FeedConverter, check_bound, named_arrays
from odtc.runtime_rpc.lengths.exactness import is_exact
from odtc.runtime_rpc.lengths.rows import NO_LABEL, NOT_EXACT, Rows, axes_between


class LengthEvaluations:
    """The evaluations of a step with several lengths.

    Args:
        manifest: of the step.
        engine: that computes them.

    Attributes:
        rows: of the step.
        known_exact: what `is_exact` found; None before it was asked.
    """

    def __init__(self, manifest: Manifest, engine: Engine) -> None:
        self.rows, self._manifests = Rows(manifest), manifest.lengths
        self._at = {n: Evaluations(each, engine) for n, each in self._manifests.items()}
        self.known_exact: bool | None = None
        shortest = self._manifests[self.rows.lengths[-1]]
        self._shortest = {each.output.name: each.output.shape for each in shortest.evaluations}

    @property
    def longest(self) -> Evaluations:
        """Those of the longest length."""
        return self._at[self.rows.lengths[0]]

    def is_exact(self) -> bool:
        """Whether what fills rows up changes nothing before it."""
        if self.known_exact is None:
            self.known_exact = is_exact(self._manifests, self._at, self.rows)
        return self.known_exact

    def of(self, x: Feed, output: str | None, instead: Instead) -> np.ndarray:
        """An output for rows of any length; see `Trainer.evaluate` for arguments and errors."""
        evaluation = self.longest.named(output)
        fed = self.longest.fed_to(evaluation, x)
        arrays = {item.spec.name: array for item, array in fed.items()}
        width = self.rows.width(arrays)
        length = self.rows.shortest(width)
        if length != width and not self.is_exact():
            length = self.rows.exactly(width, NOT_EXACT)
        found = self._at[length].of(self.rows.fit(arrays, length), evaluation.output.name, instead)
        axes = axes_between(evaluation.output.shape, self._shortest[evaluation.output.name])
        return found[tuple(slice(width) if a in axes else slice(None) for a in range(found.ndim))]

    def all(self, arrays: Mapping[str, np.ndarray], instead: Instead) -> dict[str, np.ndarray]:
        """Each output of one batch of the longest rows."""
        return self.longest.all(arrays, instead)

    def features(self, of: Features, x: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """No step of several lengths has any: it is refused as of one that is not cut in two."""
        return self.longest.features(of, x)


class LengthConverter:
    """Turns what a caller feeds into arguments at the shortest length that holds it.

    Args:
        manifest: of a step with several lengths.
        evaluations: of it.
    """

    def __init__(self, manifest: Manifest, evaluations: LengthEvaluations) -> None:
        self._evaluations, self._rows = evaluations, evaluations.rows
        self._at = {n: FeedConverter(each) for n, each in manifest.lengths.items()}
        self._names = {
            role: [item.spec.name for item in manifest.fed(role)]
            for role in (Role.INPUT, Role.LABEL)
        }
        self._bound = manifest.bound

    def fed(self, x: Feed, y: Feed | None) -> Fed:
        """Collects the arrays of a step.

        Raises:
            DataError: a name, a shape, a dtype or a label does not fit, or rows cannot be filled
                up.
        """
        check_bound(x, self._bound)
        inputs = named_arrays(x, self._names[Role.INPUT], "input", self._bound)
        labels = named_arrays({} if y is None else y, self._names[Role.LABEL], "label")
        length = self._length({**inputs, **labels})
        fit = self._rows.fit
        return self._at[length].fed(fit(inputs, length), fit(labels, length))

    def _length(self, arrays: Mapping[str, np.ndarray]) -> int:
        rows, width = self._rows, self._rows.width(arrays)
        if not rows.can_fill:
            return rows.exactly(width, NO_LABEL)
        if not self._evaluations.is_exact():
            return rows.exactly(width, NOT_EXACT)
        return rows.shortest(rows.used(arrays))


def feeding_of(
    manifest: Manifest, engine: Engine
) -> tuple[FeedConverter, Evaluations] | tuple[LengthConverter, LengthEvaluations]:
    """What turns batches into arguments of steps, and of evaluations."""
    if not manifest.shorter:
        return FeedConverter(manifest), Evaluations(manifest, engine)
    evaluations = LengthEvaluations(manifest, engine)
    return LengthConverter(manifest, evaluations), evaluations
