"""`adapter_config.json` of Hugging Face PEFT: written of a step's adapters, and compared with them.

What a folder of PEFT computes is a matter of two files: tensors, and this one, which has the factor
of their product. `odtc/runtime_rpc/adapters/peft_fields.py` has what becomes of each field.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from odtc.core.adapters import Adapter, rank_of, read_by_attention
from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ArtifactError, UnsupportedError
from odtc.core.onnx_model.quantised_names import plain_name
from odtc.core.specs import WEIGHT_ROLES
from odtc.runtime_rpc.adapters.bounded_patterns import matching
from odtc.runtime_rpc.adapters.peft_fields import refusals
from odtc.runtime_rpc.adapters.saved_modules import Beside

CONFIG = "adapter_config.json"
_RECOMPILE = (
    "compile the step with the folder's rank and alpha: --lora rank=R,alpha=ALPHA; where they "
    "differ by module, rank-pattern=GLOB:R|GLOB:R and alpha-pattern=GLOB:ALPHA"
)
# PEFT's own rank and alpha, where a configuration does not say them.
_USUAL = 8
_PATTERNS = ("rank_pattern", "alpha_pattern")
_SUFFIXES = (".lora_A.weight", ".lora_embedding_A")

Shapes = Mapping[str, tuple[int, ...]]


def module_of(adapter: Adapter) -> str:
    """The module whose weight is adapted, as PyTorch names it.

    Raises:
        UnsupportedError: the weight has no name of a module's.
    """
    plain = plain_name(adapter.weight)
    suffix = next(each for each in _SUFFIXES if adapter.down.endswith(each))
    if not plain.endswith(".weight"):
        raise UnsupportedError(
            f"the adapted weight {adapter.weight!r} is called as no module of PyTorch has it, so "
            "PEFT would not find its module",
            hint="export the module by `odtc export` or odtc.from_torch, which keep its names",
        )
    return adapter.down.removesuffix(suffix)


def require_modules(manifest: Manifest) -> None:
    """Checks that PEFT applies adapters where the step has them.

    Raises:
        UnsupportedError: an adapted weight is one that nn.MultiheadAttention reads itself.
    """
    names = [item.spec.name for item in manifest.of_role(*WEIGHT_ROLES)]
    names += [item.weight for item in manifest.coded]
    if read := read_by_attention((each.weight for each in manifest.adapters), names):
        more = f", and that of {len(read) - 1} more" if len(read) > 1 else ""
        raise UnsupportedError(
            f"PEFT would not apply the adapter of {read[0]!r}{more}: nn.MultiheadAttention reads "
            "that weight itself, and calls no module that has it",
            hint="compile with --lora targets=all-linear, which leaves such out; or export the "
            "model with the adapters merged, or the adapters alone (export_adapters)",
        )


def config_of(
    adapters: Sequence[Adapter], shapes: Shapes, base_model: str | None, beside: Beside
) -> dict[str, Any]:
    """The configuration of a step's adapters.

    Args:
        adapters: at least one; all are of one kind, as one `lora` made them.
        shapes: of A and B, by name.
        base_model: name or path of the model that they are for; None leaves it open.
        beside: what is trained beside them.

    Raises:
        UnsupportedError: a weight has no name of a module's.
    """
    ranks = {module_of(each): rank_of(shapes[each.down]) for each in adapters}
    alphas = {module_of(each): each.scale * ranks[module_of(each)] for each in adapters}
    rank, alpha = (Counter(each.values()).most_common(1)[0][0] for each in (ranks, alphas))
    # PEFT's word for matrices that are stored [in, out], as GPT-2 has them.
    turned = any(not each.transposed and len(shapes[each.down]) == 2 for each in adapters)
    return {
        "auto_mapping": None,
        "base_model_name_or_path": base_model,
        "bias": beside.bias,
        "fan_in_fan_out": turned and not any(each.transposed for each in adapters),
        "inference_mode": True,
        "init_lora_weights": True,
        "alpha_pattern": _pattern(alphas, alpha),
        "lora_alpha": alpha,
        "lora_dropout": max(each.dropout for each in adapters),
        "modules_to_save": [*beside.modules] or None,
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": _pattern(ranks, rank),
        "target_modules": sorted(ranks),
        "task_type": None,
        "use_dora": bool(adapters[0].magnitude),
        "use_rslora": False,
    }


def _pattern(values: Mapping[str, float], usual: float) -> dict[str, float]:
    """The modules with another value than most, as PEFT's patterns name them."""
    return {f"^{re.escape(name)}": value for name, value in values.items() if value != usual}


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration in a folder of PEFT.

    Raises:
        ArtifactError: it is missing or damaged.
    """
    path = folder / CONFIG
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ArtifactError(
            f"the folder has no {CONFIG}",
            where=str(folder),
            hint="give the folder that PEFT's save_pretrained wrote",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{CONFIG} is damaged ({error})", where=str(path)) from error
    if not isinstance(found, dict):
        raise ArtifactError(f"{CONFIG} is damaged (it is not an object)", where=str(path))
    for name in _PATTERNS:
        if not isinstance(found.get(name) or {}, dict):
            raise ArtifactError(f"{CONFIG} is damaged ({name} is not an object)", where=str(path))
    return found


def check_config(
    config: Mapping[str, Any], adapters: Sequence[Adapter], shapes: Shapes, where: str
) -> None:
    """Checks that a folder's adapters compute what those of the step do.

    Args:
        config: of the folder.
        adapters: of the step.
        shapes: of A and B in the step, by name.
        where: the folder.

    Raises:
        ArtifactError: they do not; it names what each side has.
    """
    differing = list(_differences(config, adapters, shapes, where))
    if differing:
        text, hint = differing[0]
        left = len(differing) - 1
        more = f", and {left} more difference{'s' if left > 1 else ''}" if left else ""
        raise ArtifactError(
            f"the adapters are others than the step's: {text}{more}",
            where=f"{where}, {CONFIG}",
            hint=hint,
        )


def _differences(
    config: Mapping[str, Any], adapters: Sequence[Adapter], shapes: Shapes, where: str
) -> Iterator[tuple[str, str]]:
    """Each difference, with what to do about it."""
    kind = config.get("peft_type")
    if kind != "LORA":
        text = f"peft_type is {kind!r} in the folder, and the step has LORA"
        yield text, "odtc trains LoRA and DoRA alone: take a folder of one of these"
        return
    theirs, ours = bool(config.get("use_dora")), any(each.magnitude for each in adapters)
    if theirs != ours:
        has = {True: "DoRA (use_dora)", False: "plain LoRA"}
        wanted = f"--lora rank=R,alpha=ALPHA,dora={str(theirs).lower()}"
        text = f"the folder has {has[theirs]}, and the step {has[ours]}"
        yield text, f"compile the step as the folder is: {wanted}"
        return
    for text in refusals(config):
        yield text, "odtc trains plain LoRA and DoRA alone: take a folder of one of these"
    for text in _numbers(config, adapters, shapes, where):
        yield text, _RECOMPILE


def _numbers(
    config: Mapping[str, Any], adapters: Sequence[Adapter], shapes: Shapes, where: str
) -> Iterator[str]:
    """What differs of ranks and factors."""
    modules = [module_of(each) for each in adapters]
    ranks = _by_module(config, modules, "rank_pattern", "r", where)
    alphas = _by_module(config, modules, "alpha_pattern", "lora_alpha", where)
    for adapter, module in zip(adapters, modules, strict=True):
        rank, there = rank_of(shapes[adapter.down]), ranks[module]
        if there != rank:
            yield f"{module} has rank {there} in the folder, and {rank} in the step"
            continue
        scale = _scale(config, alphas[module], rank)
        if not math.isclose(scale, adapter.scale, rel_tol=1e-6):
            yield (
                f"{module} has scale {scale:g} in the folder, and {adapter.scale:g} in the step "
                "(alpha / rank)"
            )


def _scale(config: Mapping[str, Any], alpha: object, rank: int) -> float:
    """The factor that PEFT multiplies an adapter's product by; NaN where nothing says it."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        return math.nan
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _by_module(
    config: Mapping[str, Any], modules: Sequence[str], patterns: str, name: str, where: str
) -> dict[str, Any]:
    """What holds for each module: of the first pattern that its name ends with, or the usual."""
    values = {rf"(.*\.)?({each})": value for each, value in (config.get(patterns) or {}).items()}
    pairs = [(pattern, module) for pattern in values for module in modules]
    found = matching(pairs, [*(config.get(patterns) or {})], where)
    first = {module: values[pattern] for pattern, module in reversed(found)}
    return {module: first.get(module, config.get(name, _USUAL)) for module in modules}
