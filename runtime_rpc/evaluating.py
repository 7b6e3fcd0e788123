"""What a trainer computes without a step: outputs in inference mode."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import ANYTHING, FLAG, TEXT, optional
from odtc.core.options.trainer_kinds import READ
from odtc.core.specs import Role
from odtc.runtime_rpc.data.fitting.looking import look_of_evaluation, looked_at
from odtc.runtime_rpc.data.tables.frames import by_names
from odtc.runtime_rpc.data.tables.ordering import Ordering
from odtc.runtime_rpc.evaluations import Evaluations
from odtc.runtime_rpc.feed.batches import Feed
from odtc.runtime_rpc.feed.calling import SEVERAL
from odtc.runtime_rpc.guards.turns import alone
from odtc.runtime_rpc.lengths.feed import LengthEvaluations
from odtc.runtime_rpc.loop.history import column_names_of
from odtc.runtime_rpc.state.device_state import DeviceState

if TYPE_CHECKING:
    from odtc.runtime_rpc.predictions.parts import Predicting

_OUTPUT = TEXT.with_hint(
    "call evaluate(x, output); several inputs go as one mapping {name: array}; labels are not used"
)


class Evaluating(DeviceState):
    """The methods of a trainer that compute outputs."""

    _evaluations: Evaluations | LengthEvaluations
    _ordering: Ordering

    @takes("trainer.evaluate", SEVERAL, x=ANYTHING, output=optional(_OUTPUT), ema=FLAG)
    @alone
    def evaluate(self, x: Feed, output: str | None = None, *, ema: bool = False) -> np.ndarray:
        """Computes an output in inference mode, for any number of samples.

        Args:
            x: the input, or `{input name: array}`, with samples along the model's batch axes.
                Inputs that the output does not depend on may be omitted. Columns of a DataFrame are
                selected by the names that they had in the last `fit`.
            output: name of a trained output; the first by default.
            ema: whether to use the moving averages of the parameters.

        Returns:
            The output for all samples, along the model's batch axis. An output without a batch
            axis, such as a loss, is that of `x`, which must then be one whole batch.

        Raises:
            DataError: a shape or dtype does not fit; a DataFrame lacks a column of the last `fit`,
                or has an empty cell.
            UsageError: there is no such output, or the step keeps no averages.
            DeviceError: the device failed.
        """
        items = self._manifest.of_role(Role.INPUT)
        found = by_names(x, items, self._columns)
        arrays, notes = looked_at(found.feed, items, look_of_evaluation)
        for note in (*found.notes, *notes):
            warn_caller(note)
        return self._evaluated(arrays, output, ema=ema)

    @alone
    def _evaluated(self, x: Feed, output: str | None, *, ema: bool) -> np.ndarray:
        """The same of arrays that somebody has looked at."""
        return self._evaluations.of(x, output, self._instead(ema))

    def _trained_columns(self) -> Mapping[str, Sequence[str]]:
        """Names of the columns of each input in the last run; else those that it normalises."""
        return column_names_of(self.progress) or self._manifest.columns

    @property
    def _columns(self) -> Mapping[str, Sequence[str]]:
        """The same; where there are none, those of DataFrames that steps took."""
        return self._trained_columns() or self._ordering.names

    @takes(
        "trainer.predict",
        SEVERAL,
        {"x": "data"},
        data=ANYTHING,
        output=optional(_OUTPUT),
        ema=FLAG,
        **READ,
    )
    def predict(
        self,
        data: Any,
        output: str | None = None,
        *,
        ema: bool = False,
        tokenizer: str | None = None,
        end_token: str | None = None,
        pack: bool = False,
        skip_broken: bool = False,
    ) -> np.ndarray:
        """Computes an output in inference mode, for all samples of data as for `fit`.

            scores = trainer.predict("photos", skip_broken=True)

        Args:
            data: inputs as for `evaluate`; or data as for `fit`, in which labels may be missing and
                are ignored: a file, a folder, a pair, a Dataset, a loader. A folder of images may
                have any subfolders; images are sorted by path. Columns of a table are selected by
                the names that they had in training; if these are not known, all columns whose name
                is not that of a label are used, in their order.
            output: name of a trained output; the first by default.
            ema: whether to use the moving averages of the parameters.
            tokenizer: as for `fit`.
            end_token: as for `fit`.
            pack: as for `fit`.
            skip_broken: as for `fit`.

        Returns:
            The output for all samples, in their order, as from `evaluate`.

        Raises:
            DataError: the data cannot be read or does not fit the step; the outputs of the batches
                cannot be joined into one array.
            UsageError: there is no such output; the step keeps no averages.
            DeviceError: the device failed.
        """
        # Imported here: it brings what reads files.
        from odtc.runtime_rpc.loop.fit import read_options
        from odtc.runtime_rpc.predictions.given import predicted

        options = read_options(
            tokenizer, end_token, pack=pack, skip_broken=skip_broken, where="predict"
        )
        return predicted(cast("Predicting", self), data, output, options, ema=ema)

    def can_fill_rows(self) -> bool:
        """Whether padding the rows of a batch leaves the outputs before the padding unchanged.

        For a step of several lengths this is determined once, from its outputs; rows of other steps
        are not padded.

        Raises:
            UsageError: the trainer is closed.
        """
        self._turns.check()
        evaluations = self._evaluations
        if not isinstance(evaluations, LengthEvaluations):
            return False
        # What makes batches asks while a step is taken, too.
        known = evaluations.known_exact
        return self._look_at_rows(evaluations) if known is None else known

    @alone
    def _look_at_rows(self, evaluations: LengthEvaluations) -> bool:
        return evaluations.is_exact()
