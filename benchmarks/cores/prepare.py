"""Compiles steps for `benchmarks.cores.run`: one for each network and number of threads."""

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.gpu.prepare import copy_runtime, prepare
from benchmarks.models.pytorch.table import FULL
from benchmarks.options import add_sizes, listed, positive
from odtc.runtime_rpc.native.build import CPUS

NETWORKS = ("squeezenet", "mobilenet_v2", "resnet18", "resnet50", "bert_base", "vit_tiny")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores.prepare", description=__doc__)
    add = partial(parser.add_argument, metavar="")
    parser.add_argument("folder", type=Path)
    networks = partial(listed, known=list(FULL), what="network")
    add("--networks", type=networks, default=list(NETWORKS), help="by name, joined by commas")
    add_sizes(parser, batch=4)
    add("--threads", type=_numbers, default=[1, 2, 4, 8], help="such as 1,2,4,8")
    add("--mcpu", required=True, help="the CPU, as LLVM calls it")
    return parser


def _numbers(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]


def main() -> None:
    """Writes the folders, and the native runtime beside them."""
    args = _parser().parse_args()
    console = Console(stderr=True)
    copy_runtime(args.folder, CPUS)
    for name in args.networks:
        for threads in args.threads:
            folder = args.folder / f"{name}-{threads}"
            target = f"host-cpu{{mcpu={args.mcpu},threads={threads}}}"
            with console.status(f"{name}, {threads} threads: compile"):
                prepare(name, args.batch, target, folder)
            console.print(f"{name}, {threads} threads: {folder}")


if __name__ == "__main__":
    main()
