"""What a step or an evaluation is fed in place of inputs: what frozen layers made of these."""

from collections.abc import Mapping

import numpy as np


class FeatureFeed(dict[str, np.ndarray]):
    """Features by name, and inputs that are read beside them.

    Args:
        arrays: of whole micro-batches.
        rest: inputs by name of further samples, which fill no micro-batch; only evaluations take
            some.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], rest: Mapping[str, np.ndarray] | None = None
    ) -> None:
        super().__init__(arrays)
        self.rest = rest
