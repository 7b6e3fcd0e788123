"""Whether commits compile the same steps: `python -m benchmarks.same_steps`.

Compiles the steps of some networks for this machine's CPU, and notes a hash of their machine code
and programs beside the commit in docs/results/steps.json. Figures of two commits with the same hash
are of the same kernels, whatever else changed in the sources: messages, say, or how fast a plan is
found (`benchmarks.pages.kernels`). Plans of attention within a budget have a hash of their own, for
figures of such: how long a mask's loops are taken to be decides nothing else.
"""

import argparse
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import onnx
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from rich.console import Console

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.pages.kernels import PLANS_HASH, STEPS, STEPS_HASH
from benchmarks.step_time.cases import case_of
from odtc.backends.objects.kernel_store import kernel_store
from odtc.backends.targets import parse_target
from odtc.comparison.measures.measure import commit
from odtc.core.artifact import bundle as bundles
from odtc.driver.sealed import description

# Networks, with what they are compiled with beside their loss.
NETWORKS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("squeezenet", {}),
    ("squeezenet", {"memory_budget": "24MiB"}),
    ("mobilenet_v2", {}),
    ("resnet18", {}),
    ("vgg16", {}),
    ("bert_base", {}),
    ("char_lstm", {}),
)
_BERT_WITHIN = {"memory_budget": "120MB"}
# Of a decoder of the shape of SmolLM2-135M.
_ADAPTERS = {
    "batch": 1,
    "quantize": "int4",
    "lora": "rank=8,alpha=16",
    "loss": "cross-entropy{axis=-1}",
}
_ADAPTERS_WITHIN = {"memory_budget": "30MB"}
_BATCH, _THREADS = 4, (1, 2)
# A step says which version compiled it: all are compared as this one's.
_VERSION = "0.2.0"
# A kernel is called by the key of all that it was made by, the compiler's own sources included.
_KEY = re.compile(rb"k[0-9a-f]{32}")


def hashes_of(console: Console) -> dict[str, str]:
    """The target, and the hashes of the steps that these sources make for it."""
    target = parse_target("host-cpu").resolved()
    steps, plans = hashlib.sha256(), hashlib.sha256()
    for threads in _THREADS:
        text = f"host-cpu{{mcpu={target.mcpu},threads={threads}}}"
        for name, options in NETWORKS:
            with console.status(f"{name}, {threads} threads"):
                steps.update(_network(name, text, options))
        with console.status(f"adapters, {threads} threads"):
            steps.update(step_of(decoder(DecoderShape()), text, _ADAPTERS))
        with console.status(f"attention within budgets, {threads} threads"):
            plans.update(_network("bert_base", text, _BERT_WITHIN))
            plans.update(step_of(decoder(DecoderShape()), text, _ADAPTERS | _ADAPTERS_WITHIN))
    return {
        "target": f"host-cpu{{mcpu={target.mcpu}}}",
        STEPS_HASH: steps.hexdigest()[:16],
        PLANS_HASH: plans.hexdigest()[:16],
    }


def _network(name: str, target: str, options: Mapping[str, Any]) -> bytes:
    case = case_of(name, _BATCH)
    return step_of(case.model, target, {"batch": _BATCH, "loss": case.loss, **options})


def step_of(model: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> bytes:
    """The hash of a step's program, and of its kernels in any order."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        # Nothing is kept of other steps, so that what is kept is this one.
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        onnx.save(model, folder / "model.onnx")
        with mock.patch.object(description, "VERSION", _VERSION):
            step = odtc.compile(folder / "model.onnx", target, **options)
        step.save(folder / "step.odtc")
        bundle = bundles.load(folder / "step.odtc", step.manifest.tvm)
        program, kernels = (bundle.root / bundles.PROGRAM).read_bytes(), sorted(_kernels())
        # A store that cannot be written keeps nothing, and says nothing.
        if not kernels:
            raise SystemExit(f"{folder}: no kernel was kept, so there is nothing to compare")
        return hashlib.sha256(program + b"".join(kernels)).digest()


def _kernels() -> Iterator[bytes]:
    """The hashes of the kernels that are kept."""
    store = kernel_store()
    for path in store.folder.rglob("*"):
        content = store.get(path.parent.name + path.name) if path.is_file() else None
        if content is not None:
            yield hashlib.sha256(code_of(content)).digest()


def code_of(file: bytes) -> bytes:
    """What an object file loads and refers to, whatever its kernel is called."""
    elf, parts = ELFFile(io.BytesIO(file)), []
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            symbols = elf.get_section(section["sh_link"])
            assert isinstance(symbols, SymbolTableSection)
            for each in section.iter_relocations():
                to = symbols.get_symbol(each["r_info_sym"])
                place = each["r_offset"], each["r_info_type"], each["r_addend"], to["st_shndx"]
                parts.append(f"{place} {to.name}".encode())
        elif section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
            parts += [section.name.encode(), section.data()]
    return _KEY.sub(b"k", b"\0".join(parts))


def main() -> int:
    """Notes this commit; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_steps")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("--file", type=Path, default=STEPS, metavar="", help="that is written")
    args = parser.parse_args()
    console, name = Console(stderr=True), commit()
    if name.endswith("-dirty"):
        console.print("sources differ from the commit: commit them first")
        return 1
    entry = {"commit": name, **hashes_of(console)}
    said = json.loads(args.file.read_text("utf-8")) if args.file.is_file() else {"commits": []}
    said["commits"] = [e for e in said["commits"] if e["commit"] != name] + [entry]
    args.file.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    both = f"{entry[STEPS_HASH]}, within budgets {entry[PLANS_HASH]}"
    console.print(f"{name}: {both} for {entry['target']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
