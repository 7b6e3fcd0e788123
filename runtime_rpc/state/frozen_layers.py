"""What a trainer has of frozen layers alone, for who computes them once for each sample."""

from collections.abc import Mapping

import numpy as np

from odtc.core.artifact.manifest import Features
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import ANYTHING, instance
from odtc.runtime_rpc.engines.engine import Engine
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.guards.turns import Turns, alone
from odtc.runtime_rpc.lengths.feed import LengthEvaluations

_OF = instance(Features, "item of manifest.features", "take one of trainer.manifest.features")


class FrozenLayers:
    """The methods of a trainer that compute the frozen layers of a step alone."""

    _engine: Engine
    _evaluations: Evaluations | LengthEvaluations
    _turns: Turns

    @property
    def frozen_writes(self) -> int | None:
        """How often frozen weights were changed; None if the step is not split in two.

        Features that were computed with earlier weights are no longer valid.
        """
        self._turns.check()
        over = self._engine.over_features
        return over and over.writes

    @takes("trainer.features", of=_OF, x=ANYTHING)
    @alone
    def features(self, of: Features, x: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs of frozen layers for a micro-batch, which `fit` computes once per sample.

        Args:
            of: one of `manifest.features`.
            x: inputs of one micro-batch, by name.

        Returns:
            The features by name, float32 or in the dtype of the layers, in the shapes of `of`.

        Raises:
            DataError: an input is missing, or a shape or dtype does not fit.
            UsageError: the step is not split there, as on a GPU.
            DeviceError: the device failed.
        """
        return self._evaluations.features(of, x)
