"""Evaluates outputs on a device: cuts what is fed into batches, and joins the results."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odtc.core.artifact.manifest import Evaluation, Features, Manifest
from odtc.core.errors import DataError, UsageError
from odtc.core.ir.place import Place, join, take
from odtc.core.printable import printable
from odtc.core.specs import Argument, Role, TensorSpec
from odtc.runtime_rpc.engines.engine import Engine, Instead
from odtc.runtime_rpc.feed.batches import Feed, check_bound, fitted, named_arrays, padded_batches
from odtc.runtime_rpc.feed.features import FeatureFeed
from odtc.runtime_rpc.feed.indices import check_indices


class Evaluations:
    """The evaluations of a step.

    Args:
        manifest: of the step.
        engine: that computes them, a micro-batch at a time.
    """

    def __init__(self, manifest: Manifest, engine: Engine) -> None:
        self._manifest, self._engine = manifest, engine

    def of(self, x: Feed, output: str | None, instead: Instead) -> np.ndarray:
        """An output for any number of samples; see `Trainer.evaluate` for arguments and errors."""
        evaluation = self.named(output)
        if isinstance(x, FeatureFeed):
            return self._over_features(evaluation, x, instead)
        place, feed = evaluation.place, self.fed_to(evaluation, x)
        if place is None:
            _check_whole(evaluation, feed, self._manifest.micro_batch)
            return self._run(evaluation, feed, instead)
        of = evaluation.by_samples
        parts = [
            take(self._run(of[size], batch, instead), place, slice(length))
            for batch, size, length in padded_batches(feed, [*of])
        ]
        return join(parts, place)

    def features(self, of: Features, x: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What frozen layers make of a micro-batch; see `FrozenLayers.features`."""
        inputs = {item.spec.name: item for item in self._manifest.of_role(Role.INPUT)}
        arrays = named_arrays(x, [*inputs], ignored=self._manifest.bound)
        for name, item in inputs.items():
            check_indices(arrays[name], item)
        feed = {item: fitted(arrays[name], item.spec) for name, item in inputs.items()}
        over = self._engine.over_features
        if over is None or of not in self._manifest.features:
            raise UsageError(
                "this step does not compute its frozen layers alone",
                where="trainer.features",
                hint="manifest.features has what can be, on a CPU",
            )
        found = over.features(of, feed)
        return {item.spec.name: array for item, array in found.items()}

    def _over_features(
        self, evaluation: Evaluation, x: FeatureFeed, instead: Instead
    ) -> np.ndarray:
        """An output of samples of which there are features, and of those of which there are not."""
        over, of = self._engine.over_features, self._manifest.features_of(evaluation.function)
        assert over
        assert of
        assert evaluation.place
        inputs = [i for i in self._manifest.of_role(Role.INPUT) if i.spec.name in of.inputs]
        items = [*of.arguments, *inputs]
        arrays = {item: (x[item.spec.name], item.place or Place(0)) for item in items}
        size = self._manifest.micro_batch
        first, place = arrays[items[0]]
        parts = [
            over.evaluate(
                of,
                {k: take(a, at, slice(start, start + size)) for k, (a, at) in arrays.items()},
                instead,
            )
            for start in range(0, place.count(first.shape), size)
        ]
        if x.rest:
            parts.append(self.of(x.rest, evaluation.output.name, instead))
        return join(parts, evaluation.place)

    def all(self, arrays: Mapping[str, np.ndarray], instead: Instead) -> dict[str, np.ndarray]:
        """Each output of one batch as it was compiled, whatever its shape."""
        return {
            each.output.name: self._run(each, self.fed_to(each, arrays), instead)
            for each in self._manifest.evaluations
        }

    def named(self, output: str | None) -> Evaluation:
        """The evaluation of an output; the usual one if None.

        Raises:
            UsageError: there is none.
        """
        known = {item.output.name: item for item in self._manifest.evaluations}
        if output is not None and output not in known:
            raise UsageError(
                f"the output {output!r} cannot be evaluated", hint=f"one of: {', '.join(known)}"
            )
        return self._manifest.evaluations[0] if output is None else known[output]

    def fed_to(self, evaluation: Evaluation, x: Feed) -> dict[Argument, np.ndarray]:
        """The arguments of an evaluation, from what a caller feeds."""
        inputs, bound = self._manifest.of_role(Role.INPUT), self._manifest.bound
        check_bound(x, bound)
        needed = {i.spec.name: i for i in inputs if i.spec.name in evaluation.inputs}
        others = {item.spec.name for item in inputs} - needed.keys() | bound.keys()
        arrays = named_arrays(x, [*needed], ignored=others)
        for name, item in needed.items():
            check_indices(arrays[name], item)
        return {item: arrays[name] for name, item in needed.items()}

    def _run(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], instead: Instead
    ) -> np.ndarray:
        """One evaluation of one batch, which has the samples of the evaluation."""
        place, shape = evaluation.place, evaluation.output.shape
        samples = place.count(shape) if place else self._manifest.micro_batch
        feed = {item: fitted(array, _spec(item, samples)) for item, array in arrays.items()}
        return self._engine.evaluate(evaluation, feed, instead)


def _spec(item: Argument, samples: int) -> TensorSpec:
    """The spec of an input with so many samples."""
    if item.place is None:
        return item.spec
    return replace(item.spec, shape=item.place.shape_of(item.spec.shape, samples))


def _check_whole(evaluation: Evaluation, feed: Mapping[Argument, np.ndarray], batch: int) -> None:
    """Checks what is fed for an output that cannot be cut: it must be one batch.

    Raises:
        DataError: it is another number of samples.
    """
    name = evaluation.output.name
    wrong = [i for i, array in feed.items() if i.place and array.shape != i.spec.shape]
    if wrong:
        raise DataError(
            f"{printable(wrong[0].spec.name)} has shape {list(feed[wrong[0]].shape)}; "
            f"nothing shows where the samples lie in {printable(str(evaluation.output))}, "
            f"so it is evaluated for one batch of {batch}",
            where=f"output {name}",
            hint=f"feed {list(wrong[0].spec.shape)}; or compile with --batch-axis {name}=0 if they "
            "lie along its axis 0, and none depends on another",
        )
