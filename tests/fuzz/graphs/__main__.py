"""`python -m tests.fuzz.graphs`: many edited models, their outcomes, and those that went wrong.

Each is checked as by `odtc check`; what check lets pass is compiled, and takes three steps on
random data. A fault is a crash, a hang, an exception that is no error of odtc's, more memory than
the bound, another answer of compile than of check, or a loss or parameter that is not finite
without an error.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.graphs.kinds import KINDS
from tests.fuzz.graphs.mutant import Case, make_mutant, write
from tests.fuzz.graphs.worker import Result, attempt
from tests.fuzz.verdict import Outcome
from tests.workers import Limits, run_cases

ENDS = ("trained", "diverged", "refused", "passed", "fault")
FOUND = Path("logs/fuzz/graphs")
# Most are only checked, which takes less than the start of a worker.
_LIMITS = Limits(cases=1000)


@dataclass
class Tally:
    """Counts of mutants' outcomes, by kind of model.

    Attributes:
        ends: how many of a kind ended in a way.
        valid: how many of a kind are valid ONNX.
        digests: of all, so that those that are alike are counted once.
    """

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    valid: Counter[tuple[str, str]] = field(default_factory=Counter)
    digests: set[str] = field(default_factory=set)

    def add(self, kind: str, result: Result) -> None:
        """Counts a mutant."""
        self.ends[kind, result.outcome.kind] += 1
        self.valid[kind, result.outcome.kind] += result.is_valid
        self.digests.add(result.digest)

    def lines(self) -> list[str]:
        """A table: a row for each kind, and for all, with those that are valid beside all."""
        heads = "".join(f"{end:>10}" for end in ENDS)
        lines = [f"{'':16}{'mutants':>9}{'valid':>8}{heads}"]
        for kind in [*dict.fromkeys(kind for kind, _ in self.ends), "all", "all valid"]:
            counts = self.valid if kind == "all valid" else self.ends
            ends = [_sum(counts, kind, end) for end in ENDS]
            valid = sum(_sum(self.valid, kind, end) for end in ENDS)
            row = "".join(f"{count or '':>10}" for count in ends)
            lines.append(f"{kind:16}{sum(ends):>9}{valid:>8}{row}")
        return [*lines, f"{len(self.digests)} of them differ from all others"]


def _sum(counts: Counter[tuple[str, str]], kind: str, end: str) -> int:
    every = kind.startswith("all")
    return sum(count for (of, by), count in counts.items() if by == end and (every or of == kind))


def cases(count: int, seed: int, kinds: Sequence[str], minutes: float = math.inf) -> list[Case]:
    """The first `count` mutants, of each kind in turn."""
    until = time.time() + 60 * minutes
    names = list(kinds or KINDS)
    return [Case(names[at % len(names)], at // len(names), seed, until) for at in range(count)]


def run(chosen: Sequence[Case], workers: int | None = None) -> Iterator[tuple[Case, Result, float]]:
    """Runs the cases, and yields each with its result and processor seconds."""
    for ended in run_cases(attempt, chosen, workers=workers, limits=_LIMITS):
        result = ended.result
        if ended.failure:
            # It is not made again here, where it may end the run.
            result = Result(Outcome("fault", ended.failure), False, (), str(ended.case))
        yield ended.case, result, ended.seconds


def save(case: Case, result: Result) -> Path:
    """Writes a reproducer: what happened, and the model unless its process ended."""
    folder = FOUND.resolve() / str(case)
    folder.mkdir(parents=True, exist_ok=True)
    if result.edits:
        write(case, make_mutant(case), folder)
    edits = ", ".join(result.edits)
    (folder / "report.txt").write_text(f"{case}\nedits: {edits}\n{result.outcome.detail}\n")
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    """Runs; 1 where there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutants (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of all edits (default: 0)")
    parser.add_argument("--kind", nargs="*", default=(), choices=KINDS, metavar="KIND")
    parser.add_argument(
        "--train-minutes",
        type=float,
        default=math.inf,
        help="after so many minutes, mutants are checked alone (default: all are trained)",
    )
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    args = parser.parse_args(argv)
    tally, started, slowest = Tally(), time.monotonic(), (0.0, "")
    chosen = cases(args.count, args.seed, args.kind, args.train_minutes)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, suppress(KeyboardInterrupt):
        # Workers inherit it: what a killed one leaves goes with it.
        os.environ["TMPDIR"] = folder
        for case, result, seconds in run(chosen, args.workers):
            tally.add(case.kind, result)
            slowest = max(slowest, (seconds, str(case)))
            if result.outcome.kind == "fault":
                summary = result.outcome.detail.strip().splitlines() or [""]
                print(f"{save(case, result)}: {summary[0][:200]}", file=sys.stderr, flush=True)
    if (done := sum(tally.ends.values())) < len(chosen):
        print(f"cut short: {done} of {len(chosen)}")
    print(*tally.lines(), sep="\n")
    took = time.monotonic() - started
    print(f"{took:.0f} s; the slowest took {slowest[0]:.1f} s of processor time: {slowest[1]}")
    return int(any(end == "fault" for _, end in tally.ends))


if __name__ == "__main__":
    raise SystemExit(main())
