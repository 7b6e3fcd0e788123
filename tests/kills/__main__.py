"""`python -m tests.kills`: kills commands at random moments, and prints what became of them."""

import argparse
import tempfile
from pathlib import Path

from tests.cli.digits import make_digits
from tests.kills.kinds import KINDS, killed


def main() -> None:
    """Kills all kinds; the first that loses, damages or leaves something ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills")
    add = parser.add_argument
    add("--kills", type=int, default=200, help="in all (default: 200)")
    add("--seed", type=int, default=0, help="of the moments (default: 0)")
    add("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    options = parser.parse_args()
    kinds = options.kinds or list(KINDS)
    with tempfile.TemporaryDirectory() as folder:
        digits = make_digits(Path(folder))
        for at, kind in enumerate(kinds):
            (place := Path(folder, kind)).mkdir()
            kills = options.kills // len(kinds) + (at < options.kills % len(kinds))
            print(killed(kind, kills, digits, place, options.seed), flush=True)


if __name__ == "__main__":
    main()
