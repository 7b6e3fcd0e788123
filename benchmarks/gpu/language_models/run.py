"""Times prepared steps of language models on this machine's GPU, interleaved with PyTorch's.

Of odtc it imports only what needs no TVM.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch.nn.functional import cross_entropy

from benchmarks import output
from benchmarks.gpu.profile import shares_of
from benchmarks.gpu.run import PARITY_STEPS, in_turn, ratio_text
from benchmarks.gpu.steps import OdtcStep, kind_of
from benchmarks.gpu.torch_step import TorchStep
from benchmarks.language_models.configs import CONFIGS
from benchmarks.language_models.models import made
from benchmarks.language_models.sides import CHECKPOINTED, TORCH
from odtc.core.adapters import from_peft

LR = 1e-3
# Losses of the steps of both have to agree by this before anything is timed.
PARITY = 1e-4
_PEERS = (TORCH, CHECKPOINTED)
Batch = tuple[dict[str, np.ndarray], np.ndarray]


def measure(folder: Path, steps: int) -> dict[str, Any]:
    """Parity, times in milliseconds, memory in bytes and profile of one prepared step."""
    about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    x, y = batch_of(about)
    ours = OdtcStep(folder, LR)
    ours.write_parameters(adapters_of(folder))
    # Of each alone, as PyTorch's numbers are of all its tensors.
    memory = {name: _peak(about["model"], folder, name, (x, y)) for name in _PEERS}
    peers = {name: torch_step(about["model"], folder, name) for name in _PEERS}
    losses = [(ours(x, y), *(peer(x, y) for peer in peers.values())) for _ in range(PARITY_STEPS)]
    apart = max(abs(a - b) / abs(b) for a, b, *_ in losses)
    found: dict[str, Any] = {"about": about, "losses": losses, "apart": apart, "on": ours.device}
    if apart > PARITY:
        return found
    sides: dict[str, Callable[[], object]] = {"odtc": lambda: ours(x, y)}
    sides |= {name: lambda peer=peer: peer(x, y) for name, peer in peers.items()}
    samples = in_turn(sides, steps)
    ours.timed()
    return found | {
        "milliseconds": samples,
        "bytes": memory | {"odtc": planned(folder, about)},
        "profile": shares_of(*ours.timed()),
    }


def batch_of(about: Mapping[str, Any]) -> Batch:
    """Random tokens, and each one's next as its label."""
    (name,) = (item["name"] for item in about["arguments"] if item["role"] == "input")
    shape = (about["batch"], about["tokens"])
    ids = np.random.default_rng(0).integers(0, CONFIGS[about["model"]]["vocab_size"], shape)
    return {name: ids}, np.concatenate([ids[:, 1:], np.full((shape[0], 1), -100)], 1)


def adapters_of(folder: Path) -> dict[str, np.ndarray]:
    """Those of PEFT's folder, by the names of the step's parameters."""
    stored = load_file(folder / "adapter" / "adapter_model.safetensors")
    return dict(from_peft(name, value) for name, value in stored.items())


def torch_step(model: str, folder: Path, name: str) -> TorchStep:
    """PyTorch's step of the model with the adapters of a folder."""
    from peft import PeftModel

    base = made(model)
    module = PeftModel.from_pretrained(base, folder / "adapter", is_trainable=True).train().cuda()
    if name == CHECKPOINTED:
        module.enable_input_require_grads()
        enable: Callable[..., None] = base.gradient_checkpointing_enable  # pyright: ignore
        enable({"use_reentrant": False})
    own = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=LR, weight_decay=0.01)
    return TorchStep(
        module, lambda said, y: cross_entropy(said.logits.flatten(0, 1), y.flatten()), optimizer
    )


def planned(folder: Path, about: Mapping[str, Any]) -> int:
    """Bytes on the device of odtc's: arena, weights, state, batch, and a base of few bits."""
    arguments = sum(
        np.dtype(item["dtype"]).itemsize * int(np.prod(item["shape"]))
        for item in about["arguments"]
    )
    return about["arena_bytes"] + arguments + (folder / "program.bin").stat().st_size


def _peak(model: str, folder: Path, name: str, batch: Batch) -> int:
    """The most bytes that PyTorch's tensors take in a step behind the first."""
    step = torch_step(model, folder, name)
    step(*batch)
    torch.cuda.reset_peak_memory_stats()
    step(*batch)
    return torch.cuda.max_memory_allocated()


def report(found: Mapping[str, Any], top: int) -> str:
    """One step's lines."""
    about, apart = found["about"], found["apart"]
    head = (
        f"{about['model']} over {about['base']}, {about['batch']} x {about['tokens']} tokens, "
        f"{kind_of(about)} on {found['on']}: losses apart by {apart:.1e}"
    )
    if "milliseconds" not in found:
        return f"{head}: WRONG, not timed: {found['losses']}"
    samples, memory = found["milliseconds"], found["bytes"]
    lines = [head]
    for name, own in samples.items():
        rate = about["batch"] * about["tokens"] / statistics.median(own) * 1e3
        said = f"  {name}: {statistics.median(own):.2f} ms, {rate:,.0f} tokens/s, "
        beside = f"; over odtc {ratio_text(samples['odtc'], own)}" if name != "odtc" else ""
        lines.append(f"{said}{memory[name] / 1e6:,.0f} MB{beside}")
    costly = sorted(found["profile"]["by_name"].items(), key=lambda each: -each[1][1])[:top]
    lines += [f"    {ns / 1e6:9.3f} ms {count:4d} x {name}" for name, (count, ns) in costly]
    return "\n".join(lines)


def main() -> None:
    """Prints a report for each step, and writes it as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.language_models.run", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20, metavar="", help="timed steps of each")
    parser.add_argument("--top", type=int, default=12, metavar="", help="kernels to list")
    parser.add_argument("--output", type=Path, default=Path("gpu_language.json"), metavar="")
    args = parser.parse_args()
    about = {"cuda": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    found: list[dict[str, Any]] = []
    whole = {"run": output.about(), "about": about, "steps": found}
    for path in sorted(args.folder.glob("*/step.json")):
        found.append(measure(path.parent, args.steps))
        torch.cuda.empty_cache()
        print(report(found[-1], args.top), flush=True)
        output.write_so_far(whole, args.output)


if __name__ == "__main__":
    main()
