"""An adapter learns as in PyTorch: `python -m benchmarks.language_models.learning`.

A small language model of bytes first learns the prose of docs/ in PyTorch: that is the base. Then
adapters learn Python from the files of the compiler's passes, in odtc and in PyTorch with PEFT,
from the same adapters and on the same batches. Both are asked for the perplexity of files that
neither has seen.
"""

import argparse
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy

import odtc
from benchmarks.language_models.models import CONFIGS
from benchmarks.options import positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    numbers_table,
    panels,
    save_figure,
    terminal,
    write_figures,
    write_json,
)

_ROOT = Path(__file__).parents[2]
_PROSE, _PYTHON = "docs/design/*.md", "passes/graph/*.py"
# One file of so many is held out, and of these so many batches are asked for.
_HELD_OUT, _ASKED = 4, 16
BATCH, LENGTH = 8, 64
_BASE_STEPS, _BASE_LR, _LR = 300, 3e-3, 1e-2
_LOSS = "cross-entropy{axis=2}"
_LORA = odtc.LoRA(rank=4, alpha=8, targets="all-linear")


@dataclass(frozen=True)
class Point:
    """Held-out perplexities behind a number of steps.

    Attributes:
        step: how many adapters have learnt from.
        odtc: of odtc.
        torch: of PyTorch with PEFT.
    """

    step: int
    odtc: float
    torch: float


def _texts(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Bytes to learn from, and bytes held out."""
    files = sorted(_ROOT.glob(pattern))
    parts: tuple[list[bytes], list[bytes]] = [], []
    for number, path in enumerate(files):
        parts[number % _HELD_OUT == 0].append(path.read_bytes())
    learnt, held_out = (np.frombuffer(b"".join(each), np.uint8).astype(np.int64) for each in parts)
    return learnt, held_out


def _batches(text: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of bytes drawn from a text, and the bytes that follow each."""
    rng = np.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(text) - LENGTH - 1, BATCH)
        rows = np.stack([text[start : start + LENGTH + 1] for start in starts])
        yield rows[:, :-1], rows[:, 1:]


def _loss(model: nn.Module, ids: np.ndarray, labels: np.ndarray) -> torch.Tensor:
    scores = model(input_ids=torch.from_numpy(ids)).logits
    return cross_entropy(scores.flatten(0, 1), torch.from_numpy(labels).flatten())


def _torch_step(model: nn.Module, lr: float) -> Callable[[np.ndarray, np.ndarray], float]:
    own = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=lr, weight_decay=0.01)

    def step(ids: np.ndarray, labels: np.ndarray) -> float:
        optimizer.zero_grad()
        loss = _loss(model, ids, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def base_of(steps: int) -> nn.Module:
    """A model of bytes that has learnt prose for so many steps."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(**CONFIGS["tiny"], use_cache=False)
    module = AutoModelForCausalLM.from_config(config).train()
    step = _torch_step(module, _BASE_LR)
    batches = _batches(_texts(_PROSE)[0], 0)
    for _ in range(steps):
        step(*next(batches))
    return module


def curves(base: nn.Module, steps: int, every: int, folder: Path) -> list[Point]:
    """Perplexities of both sides, before the first step and behind each `every` of them.

    Args:
        base: a language model of bytes.
        steps: of adapters.
        every: steps from a point to the next.
        folder: for files.
    """
    from peft import LoraConfig, get_peft_model

    learnt, held_out = _texts(_PYTHON)
    example = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    path = odtc.from_torch(base, {"input_ids": example}, folder / "m.onnx")
    artifact = odtc.compile(path, batch=BATCH, loss=_LOSS, optimizer="adamw", lora=_LORA)
    config = LoraConfig(r=_LORA.rank, lora_alpha=8, target_modules="all-linear")
    torch.manual_seed(1)
    make: Callable[..., Any] = get_peft_model
    theirs = make(copy.deepcopy(base), config).train()
    theirs.save_pretrained(folder / "adapter")
    trainer = artifact.trainer(threads=1)
    trainer.load_adapters(folder / "adapter")
    take, batches = _torch_step(theirs, _LR), _batches(learnt, 1)
    count = min(_ASKED, (len(held_out) - 1) // (BATCH * LENGTH))
    seen = held_out[: count * BATCH * LENGTH].reshape(count, BATCH, LENGTH)
    asked = held_out[1 : count * BATCH * LENGTH + 1].reshape(count, BATCH, LENGTH)

    def ours(ids: np.ndarray, labels: np.ndarray) -> float:
        scores = torch.from_numpy(np.array(trainer.evaluate(ids)))
        return cross_entropy(scores.flatten(0, 1), torch.from_numpy(labels).flatten()).item()

    def point(step: int) -> Point:
        with torch.no_grad():
            other = [_loss(theirs, *each).item() for each in zip(seen, asked, strict=True)]
        own = [ours(*each) for each in zip(seen, asked, strict=True)]
        return Point(step, float(np.exp(np.mean(own))), float(np.exp(np.mean(other))))

    found = [point(0)]
    for number in range(1, steps + 1):
        ids, labels = next(batches)
        trainer.step(ids, labels, lr=_LR)
        take(ids, labels)
        if number % every == 0:
            found.append(point(number))
    return found


def table_of(points: list[Point]) -> Table:
    """A row for each point."""
    table = numbers_table("step", "odtc", "PyTorch with PEFT")
    for each in points:
        table.add_row(str(each.step), f"{each.odtc:.3f}", f"{each.torch:.3f}")
    return table


def draw(points: list[Point], title: str, path: Path) -> None:
    """Writes both curves as SVG."""
    figure, (panel,) = panels(1, 1, (6, 3.5))
    steps = [each.step for each in points]
    panel.plot(steps, [each.torch for each in points], "C1-", linewidth=4, alpha=0.5)
    panel.plot(steps, [each.odtc for each in points], "C0.-")
    panel.legend(["PyTorch with PEFT", "odtc"])
    panel.set_xlabel("steps of adapters")
    panel.set_ylabel("perplexity of bytes held out")
    save_figure(figure, title, path)


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language_models.learning")
    parser.description = (__doc__ or "").splitlines()[0]
    add = partial(parser.add_argument, type=positive, metavar="")
    add("--steps", default=200, help="of adapters")
    add("--every", default=20, help="steps from a point to the next")
    add_files(parser, "adapter_learns", ["picture"])
    add_figures(parser, "language_models/learning")
    options = parser.parse_args()
    console, said = terminal(), about()
    title = introduce(console, said, "perplexity of Python that no adapter has seen")
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        points = curves(base_of(_BASE_STEPS), options.steps, options.every, Path(folder))
    console.print(table_of(points), f"all numbers: {options.json}", sep="\n")
    write_json(said, "points", points, options.json)
    rows = [{"step": each.step, "odtc": each.odtc, "torch": each.torch} for each in points]
    write_figures(options.figures, said, rows)
    draw(points, title, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
