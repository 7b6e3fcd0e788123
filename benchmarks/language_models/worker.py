"""A process of the benchmark: `python -m benchmarks.language_models.worker TASK FOLDER ...`.

`export` and `compile` write files and print what they made, as JSON. Sides print the bytes that
imports took, and then take a step for each byte on stdin, as `benchmarks/native_runtime/steps.c`.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from odtc.comparison.measures.resident import reset_peak, resident
from odtc.core.process.trim import trim
from odtc.core.process.without_torch import leave_out_torch

LR = 1e-3
Step = Callable[[np.ndarray, np.ndarray], float]


def _odtc(folder: Path, threads: int, base: str) -> Callable[[], Step]:
    import odtc
    import odtc.runtime_rpc.trainer  # so that it is not counted
    from odtc.runtime_rpc.adapters import peft_folder  # noqa: F401

    def make() -> Step:
        trainer = odtc.load(folder / base / "step.odtc").trainer(threads=threads)
        trainer.load_adapters(folder / "adapter")
        return lambda x, y: float(trainer.step(x, y, lr=LR))

    return make


def _torch(folder: Path, threads: int, *words: str) -> Callable[[], Step]:
    import torch

    from benchmarks.language_models import models  # noqa: F401  for torchvision

    # Optimizers and checkpoints import the first where they are made.
    import torch._dynamo  # isort: skip
    import torch.utils.checkpoint
    from peft import PeftModel
    from torch.nn.functional import cross_entropy
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(threads)
    # Classes of a family are imported where one is looked up.
    _ = AutoModelForCausalLM._model_mapping[type(AutoConfig.from_pretrained(folder / "base"))]

    def make() -> Step:
        base = AutoModelForCausalLM.from_pretrained(
            folder / "base", dtype=torch.float32, attn_implementation="sdpa"
        )
        model = PeftModel.from_pretrained(base, folder / "adapter", is_trainable=True).train()
        if "checkpointing" in words:
            model.enable_input_require_grads()
            base.gradient_checkpointing_enable({"use_reentrant": False})
        own = [each for each in model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(own, lr=LR, weight_decay=0.01)

        def step(x: np.ndarray, y: np.ndarray) -> float:
            optimizer.zero_grad()
            scores = model(input_ids=torch.from_numpy(x), use_cache=False).logits
            loss = cross_entropy(scores.flatten(0, 1), torch.from_numpy(y).flatten())
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return make


SIDES: dict[str, Callable[..., Callable[[], Step]]] = {"odtc": _odtc, "torch": _torch}


def _take_steps(make: Callable[[], Step], folder: Path) -> None:
    with np.load(folder / "batch.npz") as arrays:
        ids, labels = arrays["ids"], arrays["labels"]
    trim()
    print(resident(), flush=True)
    step = make()
    trim()
    reset_peak()
    while sys.stdin.buffer.read(1):
        start = time.perf_counter_ns()
        loss = step(ids, labels)
        print(time.perf_counter_ns() - start, loss.hex(), flush=True)


def main() -> None:
    """Does what the words say."""
    task, folder, *words = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    if task in SIDES:
        _take_steps(SIDES[task](folder, int(words[0]), *words[1:]), folder)
        return
    if task == "compile":
        leave_out_torch()  # as `odtc compile` does
    from benchmarks.language_models import prepare

    if task == "export":
        prepare.export(words[0], int(words[1]), folder)
    else:
        made = prepare.compile_base(words[0], folder)
        (folder / words[0] / prepare.COMPILED).write_text(json.dumps(dataclasses.asdict(made)))


if __name__ == "__main__":
    main()
