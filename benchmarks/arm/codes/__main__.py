"""The command line: see the package."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rich.table import Table

import benchmarks.arm.codes as package
from benchmarks.arm.codes.counting import Code, counted_code
from benchmarks.arm.cores import CORES, Core
from benchmarks.arm.ours import counted_case
from benchmarks.options import listed, positive
from benchmarks.output import (
    about,
    add_figures,
    introduce,
    numbers_table,
    terminal,
    write_figures,
)
from benchmarks.step_time.cases import names

_MODELS = "lenet,bert_tiny,squeezenet,mobilenet_v2"
_CODES = "cortex-a55,cortex-a76,cortex-a76+cortex-a55,cortex-a53,cortex-x1"
# As far as losses of two codes may be apart: sums are added up in other orders.
_NEAR = 1e-5


def _models(text: str) -> list[str]:
    return listed(text, names(), "model")


def _cores(text: str) -> list[Core]:
    return [CORES[name] for name in listed(text, [*CORES], "core")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arm.codes",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}. Cores: {', '.join(CORES)}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", type=_models, default=_MODELS, help="by name, joined by commas")
    add("--cores", type=_cores, default=",".join(CORES), help="at most four, joined by commas")
    add("--codes", default=_CODES, help="mcpu of targets, joined by commas; the first is compared")
    add("--batch", type=positive, help="samples in a step; 1, but for small models")
    add("--steps", type=positive, default=1, help="steps of which the last is counted")
    add_figures(parser, "arm/codes")
    return parser


def codes_of(options: argparse.Namespace) -> Iterator[Sequence[Code]]:
    """Each model's."""
    for model in options.models:
        case = counted_case(model, options.batch)
        yield [
            counted_code(case, mcpu, options.cores, options.steps)
            for mcpu in options.codes.split(",")
        ]


def differing(codes: Sequence[Code]) -> Iterator[str]:
    """What codes have other losses than the first."""
    first = next(iter(codes[0].losses.values()))
    for code in codes:
        for core, losses in code.losses.items():
            pairs = zip(first, losses, strict=True)
            if not all(abs(one - other) <= _NEAR * abs(one) for one, other in pairs):
                yield f"{code.model} for {code.mcpu} on {core}: losses {losses} are not {first}"


def table_of(codes: Sequence[Code], cores: Sequence[Core]) -> Table:
    """Codes of one model, beside the first of them."""
    table = numbers_table("model", "compiled for", "KiB", *(core.name for core in cores))
    for code in codes:
        cells = [_cell(code, codes[0], core) for core in cores]
        head = f"{code.model} b{code.batch}", code.mcpu, f"{code.nbytes / 1024:,.0f}"
        table.add_row(*head, *cells)
    return table


def _cell(code: Code, first: Code, core: Core) -> str:
    one, other = (each.figures[core.name].overlapped(core) for each in (code, first))
    apart, least = (each.figures[core.name].apart(core) for each in (code, first))
    return f"{one / 1e6:,.2f} to {apart / 1e6:,.2f} ({one / other:.2f}, {apart / least:.2f})"


def figures_of(codes: Sequence[Code], cores: Sequence[Core]) -> Iterator[dict[str, Any]]:
    """Rows of JSON."""
    for code in codes:
        for core in cores:
            found = code.figures[core.name]
            yield {
                "model": code.model,
                "batch": code.batch,
                "code": code.mcpu,
                "nbytes": code.nbytes,
                "core": core.name,
                "instructions": found.instructions,
                "missed": found.missed,
                "overlapped": round(found.overlapped(core)),
                "apart": round(found.apart(core)),
                "losses": code.losses[core.name],
            }


def main() -> int:
    """Counts, and prints tables; 1 where losses of two codes are not alike."""
    options = _parser().parse_args()
    console, said = terminal(160), about()
    introduce(console, said, "emulated 64-bit ARM: counts and modelled cycles, no times")
    rows, wrong = list[dict[str, Any]](), list[str]()
    for codes in codes_of(options):
        console.print(table_of(codes, options.cores))
        rows += figures_of(codes, options.cores)
        wrong += differing(codes)
        write_figures(options.figures, said, rows)
    for line in wrong:
        console.print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
