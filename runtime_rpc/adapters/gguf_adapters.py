"""Adapters as a GGUF file that llama.cpp loads beside its model: `--lora FILE`.

Which tensors the modules are there, and in which order the rows of queries and keys lie, follows
from the configuration of the model on Hugging Face, `config.json`.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from odtc.core.adapters import Adapter, rank_of, to_peft
from odtc.core.artifact.manifest import Manifest
from odtc.core.disk.files import atomic_write
from odtc.core.errors import UnsupportedError
from odtc.core.specs import Role
from odtc.runtime_rpc.adapters.base_model import BaseModel
from odtc.runtime_rpc.adapters.gguf_file import write_gguf
from odtc.runtime_rpc.adapters.llama_cpp_names import Kind, Order
from odtc.runtime_rpc.adapters.peft_config import module_of


def write_gguf_adapters(
    path: str | os.PathLike[str],
    manifest: Manifest,
    tensors: Mapping[str, np.ndarray],
    base: BaseModel,
) -> None:
    """Writes the adapters, whole or not at all.

    Args:
        path: of the file.
        manifest: of the step, whose adapters have one alpha.
        tensors: of the adapters, by the name of the step's argument.
        base: the model that they are for.

    Raises:
        ModelError: the configuration says other sizes than the adapters have.
        OutputError: the file cannot be written.
        UnsupportedError: a module has no tensor in llama.cpp, or it has no such adapters.
    """
    adapters = manifest.adapters
    if adapters[0].magnitude:
        raise UnsupportedError(
            "llama.cpp has no magnitudes (dora) for its adapters",
            hint="export the model with the adapters merged, for llama.cpp's converter",
        )
    alphas = {each.scale * rank_of(tensors[each.down].shape) for each in adapters}
    if len(alphas) > 1:
        raise UnsupportedError(
            f"llama.cpp has one alpha for all adapters, and these have {sorted(alphas)}",
            hint="compile without alpha_pattern, or export the model with the adapters merged",
        )
    keys = {
        "general.architecture": base.kind.architecture,
        "general.type": "adapter",
        "adapter.type": "lora",
        # llama.cpp divides by the rank.
        "adapter.lora.alpha": alphas.pop(),
    }
    pairs = {}
    for adapter in adapters:
        names = _tensors_of(adapter, base.kind)
        down, up = (to_peft(each, tensors[each])[1] for each in (adapter.down, adapter.up))
        for name in names:
            base.check(name, module_of(adapter), (up.shape[0], down.shape[1]))
        for name, rows in zip(names, np.split(up, len(names)), strict=True):
            order = base.kind.order(name)
            pairs[f"{name}.lora_a"] = down.T if name == "token_embd.weight" else down
            pairs[f"{name}.lora_b"] = (
                _ordered(rows, order, getattr(base, order.heads), adapter) if order else rows
            )
    coded = {item.weight for item in manifest.coded}
    frozen = {item.spec.name: item.spec.shape for item in manifest.of_role(Role.FROZEN)}
    base.check_keys({name: shape for name, shape in frozen.items() if name not in coded})
    with atomic_write(path) as temporary:
        write_gguf(temporary, keys, pairs)


def _tensors_of(adapter: Adapter, kind: Kind) -> Sequence[str]:
    module = module_of(adapter)
    names = kind.tensors(module)
    if not names:
        raise UnsupportedError(
            f"llama.cpp has no tensor for the adapter of {module!r} in its {kind.architecture} "
            "models",
            hint="narrow the targets of --lora, or export the module itself and none around it",
        )
    return names


def _ordered(up: np.ndarray, order: Order, heads: int, adapter: Adapter) -> np.ndarray:
    """The rows of B, `[heads * parts * places, rank]`, as llama.cpp orders them.

    Raises:
        UnsupportedError: the configuration is of another model.
    """
    if up.shape[0] % (order.parts * heads):
        raise UnsupportedError(
            f"{adapter.weight} has {up.shape[0]} rows, which cannot form {heads} heads of "
            f"{order.parts} parts",
            hint="give the configuration of the model that was exported",
        )
    rows = up.reshape(heads, order.parts, -1, up.shape[1])
    return rows.swapaxes(*order.axes).reshape(up.shape)
