"""The models whose steps run in guarded memory: operators one by one, whole models, and mutants."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from onnx import ModelProto

from benchmarks.models.digits import digits_model
from odtc.frontend.trained.lora import LoRA
from tests.fuzz.corpus import CORPUS
from tests.fuzz.graphs.kinds import KINDS
from tests.fuzz.graphs.mutant import Case, make_mutant
from tests.numeric.test_operators import CASES

Options = Mapping[str, Any]
# Other kernels of the same models.
WAYS: Mapping[str, Options] = {
    "half": {"precision": "mixed"},
    "parts": {"batch": 6, "micro_batches": 2, "allow_split_batchnorm": True},
    "adam": {"batch": 3, "optimizer": "adamw{weight-decay=0.01}"},
    "lora": {"lora": LoRA(rank=2)},
}


@cache
def named() -> dict[str, tuple[Any, Options]]:
    """The maker and the options of each model, without mutants."""
    return {
        "digits": (digits_model, {"batch": 5}),
        **{f"kind:{name}": (kind.make, kind.options) for name, kind in KINDS.items()},
        **{
            f"{way}:{name}": (kind.make, {**kind.options, **options})
            for way, options in WAYS.items()
            for name, kind in KINDS.items()
        },
        **{f"corpus:{name}": (make, {"batch": 3}) for name, make in CORPUS.items()},
        **{f"operator:{name}": (lambda model=model: model, {}) for name, model in CASES.items()},
    }


def names(mutants: int) -> list[str]:
    """All of them, and so many mutants of each kind of edited graphs."""
    edited = [f"mutant:{kind}:{at}" for at in range(mutants) for kind in KINDS]
    return [*named(), *edited]


def model_of(name: str) -> tuple[ModelProto, Options]:
    """A model by its name."""
    if name.startswith("mutant:"):
        _, kind, number = name.split(":")
        return make_mutant(Case(kind, int(number))).model, KINDS[kind].options
    make, options = named()[name]
    return make(), options
