"""`python -m tests.native.walk`: draws models, options and calls until the time is over.

TVM's virtual machine, odtc's trainer on the native runtime and the runtime alone are asked the same
things in the same order; each result, each tensor and each checkpoint has to have the same bytes.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks.models.pytorch.table import SMALL
from odtc.core.errors import OdtcError
from tests.native.same_bits.subject import Subject
from tests.native.walk.drawing import Drawn, draw
from tests.native.walk.moves import take
from tests.native.walk.walking import Walk

# How many walks go on with another artifact.
_OFTEN = 0.4


def walked(seed: str, moves: int) -> tuple[str, str]:
    """One walk: its outcome, and what it was.

    Args:
        seed: that draws all of it.
        moves: calls to make.
    """
    rng = Random(seed)
    name = rng.choice([*SMALL])
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(SMALL[name], Path(folder))
        try:
            drawn = draw(rng, subject)
            artifact = drawn.compiled(subject)
        except OdtcError as error:
            return "refused", f"{name}: {error.what[:150]}"
        walk = None
        try:
            with artifact:
                walk = Walk(artifact, subject, Path(folder, "first"), rng)
                take(walk, moves // 2)
                if rng.random() < _OFTEN:
                    walk = moved(walk, drawn.again(rng), subject, Path(folder, "second"))
                take(walk, moves // 2)
                walk.close()
        except Exception:
            said = "" if walk is None else "\n    ".join(["", *walk.said[-12:]])
            return "failed", f"{name} {drawn}{said}\n{traceback.format_exc()}"
    return "same", f"{name}, {len(artifact.manifest.plans)} plans"


def moved(walk: Walk, drawn: Drawn, subject: Subject, folder: Path) -> Walk:
    """The walk as it goes on with another artifact, from a checkpoint; as it was where none can."""
    try:
        artifact = drawn.compiled(subject)
    except OdtcError:
        return walk
    if not walk.save():
        return walk
    walk.close()
    return Walk(artifact, subject, folder, walk.rng, walk.checkpoints[-1])


def main(argv: Sequence[str] | None = None) -> int:
    """Walks and prints each outcome; 1 where a walk failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.walk", description=__doc__)
    parser.add_argument("--minutes", type=float, default=25.0, help="(default: 25)")
    parser.add_argument("--moves", type=int, default=40, help="calls of a walk (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the first walk (default: 1)")
    parser.add_argument("--only", metavar="SEED", help="one walk again, as it was printed")
    args = parser.parse_args(argv)
    end, number, counts = time.monotonic() + 60 * args.minutes, 0, Counter[str]()
    while number == 0 or (time.monotonic() < end and not args.only):
        seed, number = args.only or f"{args.seed}/{number}", number + 1
        print(f"{seed} ", end="", flush=True)
        outcome, said = walked(seed, args.moves)
        counts[outcome] += 1
        print(f"{outcome}: {said}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
