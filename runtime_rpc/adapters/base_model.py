"""The configuration of a language model on Hugging Face, `config.json`, beside the model itself.

How llama.cpp orders the rows of queries and keys follows from it, so what it says is compared with
the shapes of the modules that have adapters.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odtc.core.errors import ModelError, UnsupportedError
from odtc.runtime_rpc.adapters.llama_cpp_names import KINDS, Kind

_CONFIG = "config.json"
_ATTENTION = {"attention", "full_attention"}
# The fields that give the rows and the columns of a weight, by its tensor in llama.cpp.
_SIDES: Mapping[str, tuple[str, str]] = {
    "attn_q": ("heads", "hidden"),
    "attn_k": ("key_heads", "hidden"),
    "attn_v": ("key_heads", "hidden"),
    "attn_qkv": ("", "hidden"),
    "attn_output": ("hidden", "heads"),
    "ffn_up": ("", "hidden"),
    "ffn_gate": ("", "hidden"),
    "ffn_down": ("hidden", ""),
    "output": ("", "hidden"),
    "token_embd": ("hidden", ""),
}


@dataclass(frozen=True)
class BaseModel:
    """What llama.cpp's file of adapters depends on of their model.

    Attributes:
        kind: of model.
        heads: of the queries in an attention.
        key_heads: of its keys and values.
        hidden: numbers that stand for a token between two layers.
        layers: how many there are.
        head_size: numbers of a head; None where the configuration does not say it.
        where: the file of the configuration.
    """

    kind: Kind
    heads: int
    key_heads: int
    hidden: int
    layers: int
    head_size: int | None
    where: str

    def check(self, tensor: str, module: str, shape: tuple[int, int]) -> None:
        """Checks what the configuration says of a weight.

        Args:
            tensor: of the weight in llama.cpp.
            module: that has it.
            shape: the module's `[outputs, inputs]`.

        Raises:
            ModelError: the model has something else.
        """
        found = re.fullmatch(r"(?:blk\.(\d+)\.)?(.+)\.weight", tensor)
        layer, name = found.groups() if found else (None, tensor)
        if layer and int(layer) >= self.layers:
            self._differs(f"num_hidden_layers {self.layers}", f"there is {module}")
        fields = _SIDES.get(name, ("", ""))
        for field, size, side in zip(fields, shape, ("outputs", "inputs"), strict=True):
            wanted, said = self._side(field)
            if wanted not in (None, size):
                self._differs(said, f"{module} has {size} {side}")

    def check_keys(self, weights: Mapping[str, tuple[int, ...]]) -> None:
        """Checks the heads of keys whose modules have no adapters, where their number matters.

        Args:
            weights: shapes of the model's own, by name; a matrix is `[out, in]` or `[in, out]`.

        Raises:
            ModelError: the model has another number.
        """
        wanted, said = self._side("key_heads")
        for name, shape in weights.items():
            module = name.removesuffix(".weight")
            orders = [self.kind.order(tensor) for tensor in self.kind.tensors(module)]
            of_keys = any(order and order.heads == "key_heads" for order in orders)
            if of_keys and wanted and math.prod(shape) != wanted * self.hidden:
                self._differs(said, f"{module} is {list(shape)}")

    def _side(self, field: str) -> tuple[int | None, str]:
        if field == "hidden":
            return self.hidden, f"hidden_size {self.hidden}"
        if not field or self.head_size is None:
            return None, ""
        names = {"heads": "num_attention_heads", "key_heads": "num_key_value_heads"}
        count, size = getattr(self, field), self.head_size
        return count * size, f"{names[field]} {count} with heads of {size}, so {count * size}"

    def _differs(self, said: str, found: str) -> None:
        raise ModelError(
            f"the configuration is of another model: it says {said}, and in the step {found}",
            where=self.where,
            hint="give the config.json of the base that was exported",
        )


def read_base_model(path: str | os.PathLike[str]) -> BaseModel:
    """Reads `config.json` of a model, or that in its folder.

    Raises:
        ModelError: it is missing or no configuration.
        UnsupportedError: it is of a kind whose names in llama.cpp are not known, or has layers of
            which they are not.
    """
    file = Path(path) / _CONFIG if os.path.isdir(path) else Path(path)
    try:
        config = json.loads(file.read_bytes())
        kind = str(config["model_type"])
        heads = _count(config, "num_attention_heads", "n_head")
        has_fewer = config.get("num_key_value_heads") is not None
        key_heads = _count(config, "num_key_value_heads") if has_fewer else heads
        hidden = _count(config, "hidden_size", "n_embd", "n_embed")
        layers = _count(config, "num_hidden_layers", "n_layer")
        # Other kinds may have a size of their own that their configurations leave out.
        usual = hidden // heads if kind in KINDS and KINDS[kind].orders else None
        head_size = usual if config.get("head_dim") is None else _count(config, "head_dim")
        is_plain = _is_plain(config)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"no configuration of a model ({type(error).__name__}: {error})",
            where=str(file),
            hint="give the config.json of the model on Hugging Face, or the folder that has it",
        ) from error
    if kind not in KINDS:
        raise UnsupportedError(
            f"models of the kind {kind!r} have no names in llama.cpp that odtc knows",
            where=str(file),
            hint=f"known are {', '.join(KINDS)}; export a folder of PEFT for llama.cpp's converter",
        )
    if KINDS[kind].is_plain and not is_plain:
        raise UnsupportedError(
            f"of models of the kind {kind!r} odtc has names in llama.cpp only for those with "
            "attention in every layer, and without experts",
            where=str(file),
            hint="export a folder of PEFT for llama.cpp's converter",
        )
    return BaseModel(KINDS[kind], heads, key_heads, hidden, layers, head_size, str(file))


def _is_plain(config: Mapping[str, Any]) -> bool:
    layers = set(config.get("layer_types") or ["unknown"])
    return layers <= _ATTENTION and not config.get("num_local_experts")


def _count(config: Mapping[str, Any], *names: str) -> int:
    value = next((config[name] for name in names if name in config), None)
    if type(value) is not int or value < 1:
        raise ValueError(f"{names[0]} is {value!r}")
    return value
