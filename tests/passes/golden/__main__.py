"""Writes the files of golden tests anew: `python -m tests.passes.golden [NAME...]`."""

import sys

from tests.passes.golden.cases import GOLDEN, files, read


def main(names: list[str]) -> None:
    """Writes those whose names are given; all without any."""
    for path in files():
        if not names or path.stem in names:
            case = read(path)
            path.write_text(case.text(case.result()), encoding="utf-8")
            print(path.relative_to(GOLDEN))


if __name__ == "__main__":
    main(sys.argv[1:])
