"""Results of all rounds: ratios turn by turn, and whether rounds agree."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from odtc.comparison.engines import OURS
from odtc.comparison.measures.measure import Spread, spread
from odtc.comparison.outcome import Outcome
from odtc.comparison.row import ComparisonRow, Setting

# Largest spread of rounds' ratios, and of the cores' load by other programs, without a warning.
STEADY, BUSY = 1.1, 0.1


@dataclass(frozen=True)
class Result:
    """An engine at a setting, over all rounds.

    Attributes:
        rows: of the rounds, in order.
        ours: rows of odtc, of the same rounds.
    """

    rows: tuple[ComparisonRow, ...]
    ours: tuple[ComparisonRow, ...]

    @property
    def setting(self) -> Setting:
        """The setting that it was measured at."""
        return self.rows[0].setting

    @property
    def engine(self) -> str:
        """Its name."""
        return self.rows[0].engine

    @property
    def is_ours(self) -> bool:
        """Whether this is odtc, with or without a budget."""
        return self.engine.partition(",")[0] == OURS

    @property
    def own(self) -> "Result":
        """Odtc at the same setting, in the same rounds."""
        return Result(self.ours, self.ours)

    @property
    def failed(self) -> ComparisonRow | None:
        """The first round that ended before its last step."""
        return next((row for row in self.rows if row.outcome is not Outcome.TRAINED), None)

    @property
    def outcome(self) -> Outcome:
        """The outcome of all rounds: trained where all of them did."""
        return self.failed.outcome if self.failed else Outcome.TRAINED

    @property
    def reason(self) -> str:
        """The reason why not all rounds have their times."""
        return self.failed.reason if self.failed else ""

    @property
    def seconds(self) -> list[float]:
        """Seconds of all steps of the rounds that finished."""
        return [time for row in self._whole for time in row.seconds]

    @property
    def step(self) -> Spread | None:
        """Seconds of a step."""
        return spread(self.seconds) if self.seconds else None

    @property
    def throughput(self) -> float | None:
        """Samples a second in the median step."""
        return self.setting.batch / self.step.median if self.step else None

    @property
    def cores(self) -> float | None:
        """Cores that were busy, on average over the timed steps."""
        busy = sum(time for row in self._whole for time in row.cpu_seconds)
        return busy / sum(self.seconds) if self.seconds else None

    @property
    def net(self) -> int | None:
        """Bytes: the most of any round above the imports, where steps went well."""
        return max((row.net for row in self._whole if row.net is not None), default=None)

    @property
    def peak(self) -> int | None:
        """Bytes: the most of any round."""
        return max((row.peak for row in self._whole if row.peak is not None), default=None)

    @property
    def prepare_seconds(self) -> float | None:
        """Seconds of compiling or converting."""
        return self.rows[0].prepare_seconds

    @property
    def load_seconds(self) -> float | None:
        """Seconds from the imports to the first step, of the last round that has them."""
        return next((r.load_seconds for r in reversed(self.rows) if r.load_seconds), None)

    @property
    def planned(self) -> int | None:
        """Bytes that odtc has planned."""
        return self.rows[0].planned

    @property
    def rate(self) -> float | None:
        """Floating-point operations a second in the median step."""
        flops = self.rows[0].flops
        return flops / self.step.median if self.step and flops else None

    @property
    def ratios(self) -> list[list[float]]:
        """Ratios of this engine's time to odtc's, by round and turn."""
        return [
            [a / b for a, b in zip(row.seconds, ours.seconds, strict=True)]
            for row, ours in zip(self.rows, self.ours, strict=True)
            if row.outcome is ours.outcome is Outcome.TRAINED
        ]

    @property
    def ratio(self) -> Spread | None:
        """Ratio of this engine's time to odtc's: above 1, odtc is the faster one."""
        every = [each for one in self.ratios for each in one]
        return spread(every) if every else None

    @property
    def memory_ratio(self) -> float | None:
        """Ratio of this engine's memory, net of imports, to odtc's: above 1, odtc needs less."""
        ours = self.own.net
        return self.net / ours if self.net and ours else None

    @property
    def apart(self) -> float | None:
        """The largest ratio of a round over the smallest; None of fewer than two rounds."""
        medians = [spread(each).median for each in self.ratios if each]
        return max(medians) / min(medians) if len(medians) > 1 else None

    @property
    def is_steady(self) -> bool:
        """Whether the ratios of all rounds are within a tenth of each other."""
        return self.apart is None or self.apart <= STEADY

    @property
    def _whole(self) -> list[ComparisonRow]:
        return [row for row in self.rows if row.outcome is Outcome.TRAINED]


def results_of(rows: Iterable[ComparisonRow]) -> list[Result]:
    """A result for each engine at each setting, in the order of the file."""
    found: dict[tuple[Setting, str], list[ComparisonRow]] = {}
    ours: dict[tuple[Setting, int], ComparisonRow] = {}
    for row in rows:
        found.setdefault((row.setting, row.engine), []).append(row)
        if row.engine == OURS:
            ours[row.setting, row.round] = row
    return [
        Result(tuple(each), tuple(ours[row.setting, row.round] for row in each))
        for each in found.values()
    ]


def check_turns(rows: Sequence[ComparisonRow]) -> None:
    """Checks that engines took turns with odtc.

    Raises:
        ValueError: odtc lacks in a round, an engine has two rows in one, or one that trained took
            another number of steps.
    """
    for (at, number, engine), count in Counter(map(_turn, rows)).items():
        if count > 1:
            raise ValueError(f"{at.text()}, round {number}: {engine} took {count} turns")
    ours = {(row.setting, row.round): row for row in rows if row.engine == OURS}
    for row in rows:
        own = ours.get((row.setting, row.round))
        where = f"{row.setting.text()}, round {row.round}"
        if own is None:
            raise ValueError(f"{where}: odtc took no turn")
        both = row.outcome is own.outcome is Outcome.TRAINED
        if both and len(row.seconds) != len(own.seconds):
            raise ValueError(f"{where}: {row.engine} took another number of steps than odtc")


def _turn(row: ComparisonRow) -> tuple[Setting, int, str]:
    return row.setting, row.round, row.engine


def by_setting(results: Sequence[Result]) -> list[tuple[Setting, list[Result]]]:
    """Results of each setting together."""
    order = list(dict.fromkeys(each.setting for each in results))
    ranked = sorted(results, key=lambda each: order.index(each.setting))
    return [(setting, list(each)) for setting, each in groupby(ranked, lambda it: it.setting)]


def geometric_mean(values: Sequence[float]) -> float:
    """Returns the geometric mean of at least one positive number."""
    return math.exp(sum(map(math.log, values)) / len(values))


def disturbed(rows: Iterable[ComparisonRow]) -> str:
    """A warning that names the settings at which other programs were busy; '' if there are none."""
    shares: dict[Setting, float] = {}
    for row in rows:
        shares[row.setting] = max(shares.get(row.setting, 0.0), *row.busy, 0.0)
    found = {each: share for each, share in shares.items() if share > BUSY}
    if not found:
        return ""
    names = "; ".join(each.text() for each in found)
    most = f"up to {max(found.values()):.0%} of the cores busy"
    return f"other programs kept {most}; do not trust the times of {names}"
