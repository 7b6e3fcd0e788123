"""Compiles steps of language models for `run`: a folder for each model, length, base, interface."""

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

import odtc
from benchmarks.gpu.prepare import TARGET, copy_runtime, write_step
from benchmarks.language_models.configs import CONFIGS
from benchmarks.language_models.prepare import BASES, LORA, LOSS, OPTIMIZER, export, stored
from benchmarks.options import add_sizes, listed, positive
from odtc.backends.targets import parse_target

# Those without a budget.
_BASES = [name for name, base in BASES.items() if not base.part_of]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.language_models.prepare", description=__doc__
    )
    add = partial(parser.add_argument, metavar="")
    parser.add_argument("folder", type=Path)
    models = partial(listed, known=list(CONFIGS), what="model")
    add("--models", type=models, default=["smollm2_135m"], help="by name, joined by commas")
    add("--tokens", type=positive, default=256, help="of a sample")
    bases = partial(listed, known=_BASES, what="base")
    add("--bases", type=bases, default=["float32", "int4"], help="by name, joined by commas")
    add_sizes(parser, batch=1)
    add("--target", default=TARGET, help="what to compile for")
    return parser


def main() -> None:
    """Writes the folders, and the native runtime beside them."""
    args = _parser().parse_args()
    console = Console(stderr=True)
    copy_runtime(args.folder)
    for model in args.models:
        with tempfile.TemporaryDirectory() as made:
            with console.status(f"{model}: export"):
                export(model, args.tokens, Path(made))
            for base in args.bases:
                kind = parse_target(args.target).kind
                folder = args.folder / f"{model}-{args.tokens}-{args.batch}-{base}-{kind}"
                with console.status(f"{folder.name}: compile"):
                    prepare(model, args.tokens, args.batch, base, args.target, Path(made), folder)
                console.print(f"{folder}")


def prepare(
    model: str, tokens: int, batch: int, base: str, target: str, made: Path, folder: Path
) -> None:
    """Compiles the step of an exported model over a base; the adapters go beside it."""
    own = made / base
    own.mkdir(exist_ok=True)
    artifact = odtc.compile(
        stored(base, made, own),
        target=target,
        batch=batch,
        loss=LOSS,
        optimizer=OPTIMIZER,
        lora=LORA,
    )
    said = {"model": model, "tokens": tokens, "batch": batch, "base": base}
    write_step(artifact, folder, said)
    shutil.copytree(made / "adapter", folder / "adapter", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
