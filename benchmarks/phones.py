"""Collects what phones took for a step, of files that `odtc bench --device` wrote, on a page.

    python -m benchmarks.phones FILES

Files come from others: one that is no such file is refused, and nothing in it is read as Markdown.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pages.text import table
from odtc.cli.console import say
from odtc.core.disk.row_file import parse_rows
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.sweep.row import SweepResult, results_of, row_of

PAGE = Path("docs/results/phones.md")
HEADS = ("phone", "SoC", "target", "model", "batch", "cores", "threads")
FIGURES = ("step, ms: median (least to most)", "J a step", "MB, peak", "commit")
_INTRO = """# What phones took for a step

By `odtc bench --device` ([how](../phones.md#send-a-measurement)), by the phone's own clock. One
that is emulated has no times.
"""
# What Markdown would read as its own.
_MARKS = re.compile(r"[\\`*_\[\]<>|#&~]")
_MOST_LETTERS = 60


def main(words: Sequence[str] | None = None) -> int:
    """Writes the page; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.phones", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="rows of phones")
    parser.add_argument(
        "-o", "--output", type=Path, default=PAGE, metavar="FILE", help=f"(default: {PAGE})"
    )
    args = parser.parse_args(words)
    lines: list[Sequence[str]] = []
    for path in args.files:
        try:
            lines += lines_of(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            say(f"{path}: {error}; give files that `odtc bench --device` wrote")
            return ExitCode.DATA
    args.output.parent.mkdir(parents=True, exist_ok=True)
    body = table((*HEADS, *FIGURES), lines, words=len(HEADS))
    args.output.write_text("\n".join([_INTRO, *body, ""]), encoding="utf-8")
    return ExitCode.OK


def lines_of(text: str) -> Iterator[Sequence[str]]:
    """The lines of the table for a file.

    Raises:
        ValueError: it is no file of `odtc bench --device`.
    """
    head, rows = parse_rows(text, "sweep", row_of)
    if not isinstance(head, Mapping) or not isinstance(head.get("device"), Mapping):
        raise ValueError("it does not say which device it is of")
    device = head["device"]
    try:
        for result in results_of(rows):
            it = result.configuration
            emulated = bool(device.get("emulated")) or not result.is_real
            yield [
                *(plain(each) for each in (_name(device), device.get("soc", ""))),
                *(plain(each) for each in (head.get("target", ""), it.model, it.batch)),
                *(plain(each) for each in (it.cores, it.threads or "")),
                *_figures(result, emulated=emulated),
                plain(str(head.get("commit", ""))[:12]),
            ]
    except (TypeError, OverflowError) as error:
        raise ValueError("a row holds what is no measurement") from error


def plain(value: Any) -> str:
    """Text of others as a cell holds it."""
    words = " ".join(str(value).split())[:_MOST_LETTERS]
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", words)


def _name(device: Mapping[str, Any]) -> str:
    android = f", Android {device['android']}" if "android" in device else ""
    return f"{device.get('model') or device.get('machine', 'unknown')}{android}"


def _figures(result: SweepResult, *, emulated: bool) -> tuple[str, str, str]:
    """Time, energy and memory; none of an emulator."""
    if emulated:
        return "emulated", "", ""
    if not result.seconds:
        return plain(f"none: {result.reason}"), "", ""
    times = [1e3 * each for each in result.seconds]
    if not all(0 < each < float("inf") for each in times):
        raise ValueError("a row holds what is no time")
    energy, memory = result.step_energy, [row.resident for row in result.rows if row.resident]
    return (
        f"{median(times):.1f} ({times[0]:.1f} to {times[-1]:.1f})",
        "" if energy is None else f"{energy:.3g}",
        f"{max(memory) / 1e6:.0f}" if memory else "",
    )


if __name__ == "__main__":
    sys.exit(main())
