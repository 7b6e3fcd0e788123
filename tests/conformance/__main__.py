"""`python -m tests.conformance`: runs ONNX's tests and writes the page about them."""

import argparse
import dataclasses
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.page import write_page
from tests.conformance.worker import Kind, Outcome, check, names
from tests.workers import Limits, run_cases

FOUND = Path("logs/conformance.json")
LIMITS = Limits(processor_seconds=300.0, wall_seconds=600.0, memory=16 << 30, cases=1000)


def run(chosen: Sequence[str], workers: int | None = None) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each test."""
    for ended in run_cases(check, chosen, workers=workers, limits=LIMITS):
        failed = Outcome(Kind.FAULT, ended.failure)
        yield ended.case, failed if ended.failure else ended.result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs; 1 where a result was wrong, or something crashed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--only", default="", help="regular expression of names; writes no page")
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    args = parser.parse_args(argv)
    chosen = [name for name in names() if re.search(args.only, name)]
    found: dict[str, Outcome] = {}
    for name, outcome in run(chosen, args.workers):
        found[name] = outcome
        if outcome.kind in (Kind.WRONG, Kind.FAULT) or args.only:
            first = (outcome.reason.splitlines() or [""])[0]
            print(f"{outcome.kind} {name}: {first[:200]}", file=sys.stderr, flush=True)
    counts = Counter(outcome.kind for outcome in found.values())
    print(", ".join(f"{counts[kind]} {kind}" for kind in Kind))
    if not args.only:
        FOUND.parent.mkdir(exist_ok=True)
        data = {name: dataclasses.asdict(found[name]) for name in sorted(found)}
        FOUND.write_text(json.dumps(data, indent=1))
        write_page(found)
    return int(bool(counts[Kind.WRONG] or counts[Kind.FAULT]))


if __name__ == "__main__":
    raise SystemExit(main())
