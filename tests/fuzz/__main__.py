"""`python -m tests.fuzz`: many damaged models, the outcome of each, and those that went wrong."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz.corpus import CORPUS
from tests.fuzz.mutant import make_mutant
from tests.fuzz.mutations import MUTATIONS
from tests.fuzz.verdict import Outcome
from tests.fuzz.worker import Case, attempt
from tests.workers import Ended, Limits, run_cases

KINDS = ("trained", "diverged", "refused", "fault")
FOUND = Path("logs/fuzz")


def cases(count: int, folder: str, mutations: Sequence[str] = ()) -> list[Case]:
    """The first `count` mutants: the mutations in turn, each on one model after the other."""
    names, families = list(mutations or MUTATIONS), list(CORPUS)
    return [
        Case(
            names[at % len(names)],
            families[(at // len(names) + at % len(names)) % len(families)],
            at // (len(names) * len(families)),
            folder,
        )
        for at in range(count)
    ]


def run(
    chosen: Sequence[Case], workers: int | None = None
) -> Iterator[tuple[Case, Outcome, float]]:
    """Runs the cases, and yields each with its outcome."""
    for ended in run_cases(attempt, chosen, workers=workers, limits=Limits()):
        yield ended.case, outcome_of(ended), ended.seconds


def outcome_of(ended: Ended) -> Outcome:
    """A crash, a hang, or an exception of the harness is a fault."""
    return Outcome("fault", ended.failure) if ended.failure else ended.result


def save(case: Case, outcome: Outcome) -> Path:
    """Writes a reproducer: the model, its files, and what happened."""
    folder = FOUND.resolve() / str(case)
    shutil.rmtree(folder, ignore_errors=True)
    make_mutant(case.mutation, case.family, case.seed, folder).write()
    (folder / "report.txt").write_text(f"{case}\n{outcome.detail}\n")
    return folder


def table(found: Counter[tuple[str, str]]) -> list[str]:
    """Outcomes by mutation."""
    lines = [f"{'':24}" + "".join(f"{kind:>10}" for kind in KINDS)]
    for mutation in [*MUTATIONS, "all"]:
        numbers = [
            sum(n for (name, k), n in found.items() if k == kind and mutation in (name, "all"))
            for kind in KINDS
        ]
        if any(numbers):
            lines.append(f"{mutation:24}" + "".join(f"{n or '':>10}" for n in numbers))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Runs; 1 where a model was neither refused nor trained."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="mutants (default: 2000)")
    parser.add_argument("--mutation", nargs="*", default=(), choices=MUTATIONS, metavar="NAME")
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    args = parser.parse_args(argv)
    found: Counter[tuple[str, str]] = Counter()
    started, slowest = time.monotonic(), (0.0, "")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for case, outcome, seconds in run(cases(args.count, folder, args.mutation), args.workers):
            found[case.mutation, outcome.kind] += 1
            slowest = max(slowest, (seconds, str(case)))
            if outcome.kind == "fault":
                summary = outcome.detail.strip().splitlines() or [""]
                print(f"{save(case, outcome)}: {summary[0][:150]}", file=sys.stderr)
    print(*table(found), sep="\n")
    took = time.monotonic() - started
    print(f"{took:.0f} s; the slowest took {slowest[0]:.1f} s of processor time: {slowest[1]}")
    return int(any(kind == "fault" for _, kind in found))


if __name__ == "__main__":
    raise SystemExit(main())
