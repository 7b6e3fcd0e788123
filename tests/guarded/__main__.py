"""`python -m tests.guarded`: steps in memory whose every overrun ends the process.

Each tensor of a step, its arguments and what kernels stage lie in pages of their own, between two
guard pages, which may not be accessed; a tensor ends where the second begins. The bytes between a
tensor and its pages' ends are compared. Each step is taken with memory of zeros and of 0xFF, and
has to give the same bits: nothing is read that was not written.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from tests.fuzz.verdict import Outcome
from tests.guarded.models import names
from tests.guarded.worker import attempt
from tests.workers import Limits, run_cases

_LIMITS = Limits(processor_seconds=120.0, wall_seconds=600.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs; 1 where a step left its tensors."""
    parser = argparse.ArgumentParser(prog="python -m tests.guarded", description=__doc__)
    parser.add_argument("--mutants", type=int, default=10, help="of each kind (default: 10)")
    parser.add_argument("--only", default=("",), nargs="*", help="models whose names begin so")
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    args = parser.parse_args(argv)
    chosen = [name for name in names(args.mutants) if name.startswith(tuple(args.only))]
    ends: Counter[str] = Counter()
    for ended in run_cases(attempt, chosen, workers=args.workers, limits=_LIMITS):
        outcome = Outcome("fault", ended.failure) if ended.failure else ended.result
        ends[outcome.kind] += 1
        if outcome.kind in ("fault", "refused"):
            text = outcome.detail.strip().splitlines()[0]
            print(f"{ended.case}: {outcome.kind}: {text}", file=sys.stderr, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(ends.items())))
    return int(bool(ends["fault"]))


if __name__ == "__main__":
    raise SystemExit(main())
