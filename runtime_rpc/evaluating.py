"""What a trainer computes without a step: outputs in inference mode."""

import numpy as np

from odtc.core.options.arguments import takes
from odtc.core.options.kinds import ANYTHING, FLAG, TEXT, optional
from odtc.core.specs import Role
from odtc.runtime_rpc.data.tables.frames import check_columns
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.feed.batches import Feed
from odtc.runtime_rpc.feed.calling import SEVERAL
from odtc.runtime_rpc.guards.turns import alone
from odtc.runtime_rpc.lengths.feed import LengthEvaluations
from odtc.runtime_rpc.loop.history import column_names_of
from odtc.runtime_rpc.state.device_state import DeviceState

_OUTPUT = TEXT.with_hint(
    "call evaluate(x, output); several inputs go as one mapping {name: array}; labels take no part"
)


class Evaluating(DeviceState):
    """The methods of a trainer that compute outputs."""

    _evaluations: Evaluations | LengthEvaluations

    @takes("trainer.evaluate", SEVERAL, x=ANYTHING, output=optional(_OUTPUT), ema=FLAG)
    @alone
    def evaluate(self, x: Feed, output: str | None = None, *, ema: bool = False) -> np.ndarray:
        """An output in inference mode, for any number of samples.

        Args:
            x: the input, or `{input name: array}`, with samples along the axes that the model has
                them along. Inputs that the output does not depend on may be left out.
            output: name of a trained output; the first by default.
            ema: with the moving averages of the parameters.

        Returns:
            The output of all samples, which lie along the axis where the model has them. An output
            without a batch, such as a loss, is that of `x`, which must then be one whole batch.

        Raises:
            DataError: a shape or dtype does not fit; a DataFrame has its columns in another order
                than that of the last `fit`.
            UsageError: there is no such output.
            DeviceError: the device failed.
            UsageError: the step keeps no averages.
        """
        if trained := column_names_of(self.progress) or self._manifest.columns:
            names = [item.spec.name for item in self._manifest.of_role(Role.INPUT)]
            check_columns(x, names, trained, "input")
        return self._evaluations.of(x, output, self._instead(ema))

    @takes("trainer.predict", SEVERAL, x=ANYTHING, output=optional(_OUTPUT), ema=FLAG)
    def predict(self, x: Feed, output: str | None = None, *, ema: bool = False) -> np.ndarray:
        """An output in inference mode: `evaluate`, by the name that other libraries have for it."""
        return self.evaluate(x, output, ema=ema)

    @alone
    def _look_at_rows(self) -> None:
        """Finds out whether rows can be filled up, where a step has several lengths."""
        if isinstance(self._evaluations, LengthEvaluations):
            self._evaluations.is_exact()
