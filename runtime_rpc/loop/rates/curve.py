"""The curve of a range test: losses by learning rate, and the rate that it suggests."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from odtc.core.text_chart import text_chart
from odtc.runtime_rpc.loop.history import for_json

# Losses on either side that a smoothed one is of, too. An average of those before alone, as fastai
# and Lightning take, would put the slope at larger rates than it is at.
_BESIDE = 4
# At the ends it is of fewer, whose slopes say little.
_FIRST = 5


@dataclass(frozen=True)
class RateCurve:
    """Losses of a range test, an update a point.

    Attributes:
        rates: learning rates, each larger than the one before.
        losses: of the batch before the update with that rate.
        stopped: why the test ended before its last rate; empty where it did not.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    stopped: str = ""

    @property
    def smoothed(self) -> tuple[float, ...]:
        """Averages of each loss and those beside it, which count less the further off they are."""
        return tuple(map(self._average, range(len(self.losses))))

    def _average(self, number: int) -> float:
        near = range(max(number - _BESIDE, 0), min(number + _BESIDE + 1, len(self.losses)))
        weights = [_BESIDE + 1 - abs(number - each) for each in near]
        sums = math.fsum(w * self.losses[each] for w, each in zip(weights, near, strict=True))
        return sums / sum(weights)

    @property
    def least(self) -> float | None:
        """The rate with the least smoothed loss; None where there are no losses."""
        values = self.smoothed
        return self.rates[values.index(min(values))] if values else None

    @property
    def suggestion(self) -> float | None:
        """The rate where the smoothed loss falls steepest; None where it does not fall.

        Slopes are those of the logarithm of the loss by that of the rate, so that what an easy
        beginning gains counts no more than the last tenth; of a loss that is not above zero, of
        the loss itself. They are looked at up to the least loss: where it rises again, rates are
        too large already.
        """
        values = self.smoothed
        if len(values) <= _FIRST + 1:
            return None
        if min(values) > 0:
            values = tuple(map(math.log, values))
        steps = [after - before for before, after in pairwise(values)]
        falling = range(_FIRST, values.index(min(values)))
        steepest = min(falling, key=steps.__getitem__, default=None)
        return None if steepest is None or steps[steepest] >= 0 else self.rates[steepest]

    def as_data(self) -> dict[str, Any]:
        """All of it, for JSON."""
        names = ("lr", "loss", "smoothed")
        rows = zip(self.rates, self.losses, self.smoothed, strict=True)
        return {
            "suggestion": self.suggestion,
            "least": self.least,
            "stopped": self.stopped or None,
            "curve": [for_json(dict(zip(names, row, strict=True))) for row in rows],
        }

    def __str__(self) -> str:
        found, values = self.suggestion, self.smoothed
        most = max(values[: values.index(min(values)) + 1]) if values else 0.0
        # What diverges would leave no room for what is to be seen.
        points = [
            (math.log(rate), loss)
            for rate, loss in zip(self.rates, values, strict=True)
            if loss <= most
        ]
        marked = [point for point in points if found and point[0] == math.log(found)]
        lines = text_chart({"*": points, "O": marked})
        if self.rates:
            ends = f"from {self.rates[0]:.2g} to {self.rates[-1]:.2g}"
            lines.append(f"smoothed loss, at learning rates {ends}")
        if self.stopped:
            lines.append(f"stopped: {self.stopped}")
        if found:
            lines.append(f"suggestion: {found:.2g}, where the loss falls steepest (O)")
            lines.append(f"least at {self.least:.2g}; a tenth of that is the cautious choice")
        else:
            lines.append("no suggestion: the loss does not fall")
        return "\n".join(lines)

    __repr__ = __str__
