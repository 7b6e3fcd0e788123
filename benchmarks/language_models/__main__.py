"""The command line: see the package."""

import argparse
import dataclasses
import json
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import benchmarks.language_models as package
from benchmarks.language_models.compare import Row, Terms, compare
from benchmarks.language_models.configs import CONFIGS, PUBLISHED
from benchmarks.language_models.figures import NAME, figures_of
from benchmarks.language_models.prepare import BASES
from benchmarks.language_models.report import said_of, table_of
from benchmarks.language_models.sides import SideError, Turn
from benchmarks.options import add_sizes, listed, positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    terminal,
    write_figures,
    write_json,
)

_TOKENS = (128, 256, 512)
_PACKAGES = ("transformers", "peft")
# What has to be the same for rows of an earlier run to stand beside those of this one.
_SAME = ("machine", "versions", "commit", "terms")


def _lengths(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def _bases(text: str) -> list[str]:
    """Bases by name; a budget stands behind the base of whose arena it is a part."""
    names = listed(text, list(BASES), "base")
    for number, name in enumerate(names):
        whole = BASES[name].part_of
        if whole and whole not in names[:number]:
            said = f"{name!r} is a part of the arena over {whole!r}: name {whole!r} before it"
            raise argparse.ArgumentTypeError(said)
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.language_models",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(CONFIGS)}. Bases: {', '.join(BASES)}.",
    )
    add = partial(parser.add_argument, metavar="")
    models = partial(listed, known=list(CONFIGS), what="model")
    add("--models", type=models, default=list(PUBLISHED), help="by name, joined by commas")
    add("--tokens", type=_lengths, default=list(_TOKENS), help="such as 128,256")
    add("--bases", type=_bases, default=list(BASES), help="by name, joined by commas")
    add_sizes(parser, threads=1)
    add("--turns", type=positive, default=5, help="processes of each side")
    add("--steps", type=positive, default=2, help="timed steps in a turn, behind one to warm up")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what is in the file of --json"
    )
    add_files(parser, "language_models")
    add_figures(parser, NAME)
    return parser


def main() -> int:
    """Measures; returns the exit status: 1 where a base of odtc was not timed."""
    options = _parser().parse_args()
    terms = Terms(options.bases, options.threads, options.turns, options.steps)
    console, said = terminal(), _said(terms)
    introduce(console, said, f"{terms.threads} thread{'s' * (terms.threads > 1)}")
    rows = _earlier(options.json, said) if options.resume else []
    known = {(row.model, row.tokens) for row in rows}
    for model in options.models:
        for tokens in options.tokens:
            if (model, tokens) in known:
                continue
            name = f"{model}, {tokens} tokens"
            try:
                with TemporaryDirectory() as folder:
                    rows += compare(
                        *(model, tokens, terms, Path(folder)),
                        lambda task, name=name: console.print(f"{name}: {task} ..."),
                    )
            except SideError as error:
                rows.append(Row(model, tokens, "export", skipped=str(error)))
            # A run takes long: what is there is written after each.
            write_json(said, "rows", rows, options.json)
    write_figures(options.figures, said | {"threads": terms.threads}, figures_of(rows))
    console.print(table_of(rows), *said_of(rows), f"raw samples: {options.json}", sep="\n")
    return int(any(row.skipped for row in rows))


def _said(terms: Terms) -> dict[str, Any]:
    from importlib.metadata import version

    said = about() | {"terms": dataclasses.asdict(terms)}
    said["versions"] |= {name: version(name) for name in _PACKAGES}
    return said


def _earlier(path: Path, said: dict[str, Any]) -> list[Row]:
    """Rows of an earlier run; none where there is no file."""
    if not path.exists():
        return []
    earlier = json.loads(path.read_text())
    differs = [key for key in _SAME if earlier[key] != json.loads(json.dumps(said[key]))]
    if differs:
        sys.exit(f"{path} is of another run: {', '.join(differs)} differ; give another --json")
    return [_row(each) for each in earlier["rows"]]


def _row(fields: dict[str, Any]) -> Row:
    turns = [Turn(**each) for each in fields["turns"]]
    parity = Turn(**fields["parity"]) if fields["parity"] else None
    return Row(**{**fields, "turns": turns, "parity": parity})


if __name__ == "__main__":
    sys.exit(main())
