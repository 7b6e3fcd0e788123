"""An adapter learns as in PyTorch: `python -m benchmarks.language_models.learning`.

A small language model of bytes first learns a law in PyTorch: that is the base. Then adapters learn
sonnets, in odtc and in PyTorch with PEFT, from the same adapters and on the same batches. Both are
asked for the perplexity of the last sonnets, which neither has seen.

The texts lie beside this file, and stay as they are: the Constitution of the United States, and the
first of Shakespeare's sonnets. Both are in the public domain, and were written down from memory.

Where the curves part, two more numbers say whether that is rounding: how far PyTorch parts from
itself when its adapters begin a ten millionth apart, and how far the gradient of odtc's own step is
from that of PyTorch in float64 at the same weights.
"""

import argparse
import copy
import dataclasses
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
from safetensors.numpy import load_file
from torch import nn
from torch.nn.functional import cross_entropy

import odtc
from benchmarks.language_models.configs import CONFIGS
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
from odtc.core.adapters import to_peft

_TEXTS = Path(__file__).with_name("texts")
_LAW, _SONNETS = "constitution.txt", "sonnets.txt"
# The last of so many parts of the sonnets is held out, and so many batches of it are asked for.
_PARTS, _ASKED = 4, 16
BATCH, LENGTH = 8, 64
_BASE_STEPS, _BASE_LR, _LR = 300, 3e-3, 1e-3
_LOSS = "cross-entropy{axis=2}"
_LORA = odtc.LoRA(rank=4, alpha=8, targets="all-linear")
# Runs of PyTorch whose adapters begin so far apart, as a share of each element.
_TWINS, _APART = 3, 1e-7
# What AdamW's mean of gradients keeps of itself.
_BETA = odtc.AdamW().beta1


@dataclass(frozen=True)
class Point:
    """Held-out perplexities behind a number of steps.

    Attributes:
        step: how many adapters have learnt from.
        odtc: of odtc.
        torch: of PyTorch with PEFT.
        apart: the least and the most of PyTorch begun a little apart, that of `torch` included.
        error: of the gradient of the step before, against float64 at the same weights, over the
            norm of that; 0 before the first step.
    """

    step: int
    odtc: float
    torch: float
    apart: tuple[float, float]
    error: float


def _text(name: str) -> np.ndarray:
    """Its bytes, as int64."""
    return np.frombuffer((_TEXTS / name).read_bytes(), np.uint8).astype(np.int64)


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


def _twin(model: nn.Module, seed: int) -> nn.Module:
    """A copy whose adapters begin a little apart."""
    copied, rng = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in copied.parameters():
            if each.requires_grad:
                each.mul_(1 + _APART * torch.randn(each.shape, generator=rng))
    return copied


class _Gradient:
    """The gradient of a step of odtc, against PyTorch in float64 at the same weights.

    Args:
        trainer: whose optimizer is AdamW: what a step adds to its mean is the gradient.
        exact: PyTorch's model, in float64.
        folder: for files.
    """

    def __init__(self, trainer: odtc.Trainer, exact: nn.Module, folder: Path) -> None:
        self._trainer, self._exact, self._path = trainer, exact, folder / "state"
        self._own = {k: each for k, each in exact.named_parameters() if each.requires_grad}

    def _read(self) -> dict[str, np.ndarray]:
        self._trainer.save_checkpoint(self._path)
        return load_file(self._path)

    def _named(self, state: dict[str, np.ndarray], kind: str) -> dict[str, torch.Tensor]:
        """Adapters, or what is kept of each, by PEFT's names of a model that is not yet saved."""
        names = [each for pair in self._trainer.manifest.adapters for each in (pair.down, pair.up)]
        found = (to_peft(name, state[kind + name]) for name in names)
        return {
            name.replace(".weight", ".default.weight"): torch.from_numpy(value.astype(np.float64))
            for name, value in found
        }

    def error_of(self, ids: np.ndarray, labels: np.ndarray) -> float:
        """Takes a step, and returns the norm of the error over that of the gradient."""
        before = self._read()
        self._exact.zero_grad()
        with torch.no_grad():
            for name, value in self._named(before, "").items():
                self._own[name].copy_(value)
        _loss(self._exact, ids, labels).backward()
        self._trainer.step(ids, labels, lr=_LR)
        means = (self._named(each, "mean/") for each in (before, self._read()))
        kept, now = (torch.cat([one[k].flatten() for k in self._own]) for one in means)
        exact = torch.cat(
            [each.grad.flatten() for each in self._own.values() if each.grad is not None]
        )
        return float(((now - _BETA * kept) / (1 - _BETA) - exact).norm() / exact.norm())


def base_of(steps: int) -> nn.Module:
    """A model of bytes that has learnt the law for so many steps."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(**CONFIGS["tiny"], use_cache=False)
    module = AutoModelForCausalLM.from_config(config).train()
    step = _torch_step(module, _BASE_LR)
    batches = _batches(_text(_LAW), 0)
    for _ in range(steps):
        step(*next(batches))
    return module


def curves(
    base: nn.Module, steps: int, every: int, folder: Path, twins: int = _TWINS
) -> list[Point]:
    """Perplexities of both sides, before the first step and behind each `every` of them.

    Args:
        base: a language model of bytes.
        steps: of adapters.
        every: steps from a point to the next.
        folder: for files.
        twins: runs of PyTorch that begin a little apart.
    """
    from peft import LoraConfig, get_peft_model

    sonnets = _text(_SONNETS)
    learnt, held_out = np.split(sonnets, [len(sonnets) - len(sonnets) // _PARTS])
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
    others = [_twin(theirs, seed) for seed in range(twins)]
    takes = [_torch_step(each, _LR) for each in (theirs, *others)]
    gradient = _Gradient(trainer, copy.deepcopy(theirs).double(), folder)
    batches = _batches(learnt, 1)
    count = min(_ASKED, (len(held_out) - 1) // (BATCH * LENGTH))
    seen = held_out[: count * BATCH * LENGTH].reshape(count, BATCH, LENGTH)
    asked = held_out[1 : count * BATCH * LENGTH + 1].reshape(count, BATCH, LENGTH)

    def ours(ids: np.ndarray, labels: np.ndarray) -> float:
        scores = torch.from_numpy(np.array(trainer.evaluate(ids)))
        return cross_entropy(scores.flatten(0, 1), torch.from_numpy(labels).flatten()).item()

    def perplexity(loss: Callable[[np.ndarray, np.ndarray], float]) -> float:
        return float(np.exp(np.mean([loss(*each) for each in zip(seen, asked, strict=True)])))

    def point(step: int, error: float) -> Point:
        with torch.no_grad():
            other = [
                perplexity(lambda *each, of=model: _loss(of, *each).item())
                for model in (theirs, *others)
            ]
        return Point(step, perplexity(ours), other[0], (min(other), max(other)), error)

    found = [point(0, 0.0)]
    for number in range(1, steps + 1):
        ids, labels = next(batches)
        error = 0.0
        if number % every:
            trainer.step(ids, labels, lr=_LR)
        else:
            error = gradient.error_of(ids, labels)
        for take in takes:
            take(ids, labels)
        if number % every == 0:
            found.append(point(number, error))
    return found


def table_of(points: list[Point]) -> Table:
    """A row for each point."""
    table = numbers_table("step", "odtc", "PyTorch with PEFT", "begun apart", "gradient's error")
    for each in points:
        least, most = each.apart
        table.add_row(
            *(str(each.step), f"{each.odtc:.3f}", f"{each.torch:.3f}"),
            *(f"{least:.3f} to {most:.3f}", f"{each.error:.1e}"),
        )
    return table


def draw(points: list[Point], title: str, path: Path) -> None:
    """Writes both curves as SVG."""
    figure, (panel,) = panels(1, 1, (6, 3.5))
    steps = [each.step for each in points]
    least, most = ([each.apart[side] for each in points] for side in (0, 1))
    panel.fill_between(steps, least, most, color="C1", alpha=0.25, linewidth=0)
    panel.plot(steps, [each.torch for each in points], "C1-", linewidth=4, alpha=0.5)
    panel.plot(steps, [each.odtc for each in points], "C0.-")
    panel.legend(["PyTorch begun a ten millionth apart", "PyTorch with PEFT", "odtc"])
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
    title = introduce(console, said, "perplexity of sonnets that no adapter has seen")
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        points = curves(base_of(_BASE_STEPS), options.steps, options.every, Path(folder))
    console.print(table_of(points), f"all numbers: {options.json}", sep="\n")
    write_json(said, "points", points, options.json)
    rows = [dataclasses.asdict(each) for each in points]
    write_figures(options.figures, said, rows)
    draw(points, title, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
