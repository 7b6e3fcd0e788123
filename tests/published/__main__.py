"""`python -m tests.published fetch` and `run`: gets model files, and writes the page about them."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

from tests.published.examine import check
from tests.published.exports import export
from tests.published.fetch import fetch
from tests.published.options import Case
from tests.published.outcome import Outcome, Word
from tests.published.page import read_found, write_page
from tests.published.table import cases
from tests.workers import Limits, run_cases

SECONDS = 120.0
LIMITS = Limits(processor_seconds=SECONDS, wall_seconds=6 * SECONDS, memory=16 << 30, cases=8)


def run(chosen: Sequence[Case]) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each file, one at a time."""
    for ended in run_cases(check, chosen, workers=1, limits=LIMITS):
        outcome = ended.result
        if ended.failure:
            late = ended.failure.startswith("hang")
            outcome = Outcome(Word.LATE if late else Word.FAULT, "" if late else ended.failure)
        yield ended.case.name, outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Fetches or runs; 1 where something could not be had, was wrong, or ended by a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.published", description=__doc__)
    parser.add_argument("command", choices=("fetch", "run"))
    parser.add_argument("--only", default="", help="regular expression; other rows are kept")
    parser.add_argument("--rest", action="store_true", help="only files that have no row yet")
    args = parser.parse_args(argv)
    if args.command == "fetch":
        missed = [*fetch(), *export()]
        print(*missed, sep="\n", file=sys.stderr)
        return int(bool(missed))
    found = read_found()[0] if args.only or args.rest else {}
    skipped = found.keys() if args.rest else ()
    chosen = [
        case for case in cases() if re.search(args.only, case.name) and case.name not in skipped
    ]
    bad = 0
    for name, outcome in run(chosen):
        found[name] = outcome
        bad += outcome.word in (Word.WRONG, Word.FAULT)
        print(f"{outcome.word} {name} {(outcome.reason.splitlines() or [''])[0]}", flush=True)
        write_page(found, SECONDS)
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
