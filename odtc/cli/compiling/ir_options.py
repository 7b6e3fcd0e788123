"""Options that print what passes make, as `-print-after` of LLVM's `opt` does: to stderr."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from odtc.cli.console import dump, say, stages
from odtc.core.process.progress import Progress


def add_ir_option(parser: argparse._ActionsContainer, name: str) -> None:
    """The option that names passes, or all of them."""
    parser.add_argument(
        name,
        action="append",
        default=[],
        metavar="PASS",
        help="print the module to stderr after each run of this pass, such as fuse-named, or of "
        "every pass (all); may be given several times",
    )


def pipeline_names() -> Sequence[str]:
    """Names of the passes that a compile may run."""
    from odtc.autoschedule.table import SCHEDULE_PASSES
    from odtc.backends.pipeline.phases import PHASES

    return [*dict.fromkeys(row.name for phase in PHASES for row in phase), *SCHEDULE_PASSES]


@contextmanager
def printed_after(
    asked: Sequence[str], names: Callable[[], Sequence[str]] = pipeline_names
) -> Iterator[Progress]:
    """Yields what tells of stages, while modules are printed after passes.

    Args:
        asked: names of passes, or all.
        names: gives those of all passes that may run.

    Raises:
        UsageError: there is no pass of a name; the hint has the nearest one.
    """
    if not asked:
        with stages() as progress:
            yield progress
        return
    import tvm

    from odtc.passes.pipeline.printing import ALL, PrintAfter
    from odtc.passes.pipeline.text import require_among

    wanted = [name for name in asked if name != ALL]
    require_among(wanted, names())
    printing = PrintAfter(names() if ALL in asked else wanted, dump)
    with tvm.transform.PassContext(instruments=[printing]):
        # A spinner would turn between the lines of modules.
        yield say
    for name in wanted:
        if name not in printing.seen:
            say(f"note: {name} did not run for this target and these options")
