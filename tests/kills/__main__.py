"""`python -m tests.kills`: kills commands at random moments, and prints the outcomes."""

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

from tests.cli.training.digits import make_digits
from tests.kills.kinds import KINDS, killed


def main() -> None:
    """Kills all kinds; one that loses, damages or leaves something is not killed further."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills")
    add = parser.add_argument
    add("--kills", type=int, default=200, help="in all (default: 200)")
    add("--seed", type=int, default=0, help="of the moments (default: 0)")
    add("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    options = parser.parse_args()
    kinds, failed = options.kinds or list(KINDS), []
    with tempfile.TemporaryDirectory() as folder:
        digits = make_digits(Path(folder))
        for at, kind in enumerate(kinds):
            (place := Path(folder, kind)).mkdir()
            kills = options.kills // len(kinds) + (at < options.kills % len(kinds))
            try:
                print(killed(kind, kills, digits, place, options.seed), flush=True)
            except AssertionError:
                traceback.print_exc()
                failed.append(kind)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
