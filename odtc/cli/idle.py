"""Options of a command that change nothing beside its others.

What only the model, the artifact or the data shows is in tables where that is known: of a compile
in `odtc/driver/drafts/idle.py`, of memory in `odtc/runtime_rpc/memory/idle.py`, of a run in
`odtc/runtime_rpc/loop/idle.py`.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odtc.core.options.idle import Idle, flag_of, said_of_idle
from odtc.driver.options.option import options_of
from odtc.driver.options.step_options import StepOptions

_Fact = Callable[[Namespace], bool]
_Row = Idle[Namespace]


def _is_on(name: str) -> _Fact:
    return lambda args: bool(getattr(args, name))


def _differs(name: str, usual: Any) -> _Fact:
    return lambda args: getattr(args, name) != usual


def _rows(given: Mapping[str, _Fact], is_idle: _Fact, why: str) -> Sequence[_Row]:
    """Rows of several options that one thing makes idle."""
    return [Idle(name, is_given, is_idle, why) for name, is_given in given.items()]


def _has_models(args: Namespace) -> bool:
    return any(path.endswith(".onnx") for path in args.inputs)


def _has_torch(args: Namespace) -> bool:
    return not {"pytorch", "torch.compile"}.isdisjoint(args.peers)


def _exports(args: Namespace) -> bool:
    return any((args.export, args.export_adapters, args.export_peft, args.export_gguf))


def _goes_on(args: Namespace) -> bool:
    # Of an adapter by its name the run itself says it: the checkpoint may not have it yet.
    return bool(args.resume and not args.adapter and args.checkpoint and args.checkpoint.exists())


_OF_TRAIN: Sequence[_Row] = (
    Idle(
        "ema",
        _is_on("ema"),
        lambda it: not (it.validation or it.eval_data or _exports(it)),
        "nothing is validated, evaluated or exported",
    ),
    Idle(
        "restore_best",
        _is_on("restore_best"),
        lambda it: not (it.eval_data or _exports(it)),
        "nothing is evaluated or exported at the end; --best has the checkpoint",
    ),
    Idle(
        "no_verify",
        lambda it: bool(it.export and not it.verify),
        lambda it: it.training or not it.merge,
        "such a file is not compared in any case",
    ),
    Idle(
        "load_adapters",
        _is_on("load_adapters"),
        _goes_on,
        "the run goes on with the adapters of its checkpoint",
    ),
    *_rows(
        {
            "schedule": _differs("schedule", "constant"),
            "feature_cache": _differs("feature_cache", "1GiB"),
            "ema": _is_on("ema"),
        },
        _is_on("find_lr"),
        "--find-lr tries rates of its own, an update each, and measures nothing else",
    ),
)
_OF_TUNE = _rows(
    {
        "time": _differs("time", 600),
        "trials": _is_on("trials"),
        "devices": _is_on("devices"),
        "rounds": _differs("rounds", 15),
        "cooldown": lambda args: args.cooldown is not False,
    },
    _is_on("list"),
    "--list measures nothing",
)
_OF_SWEEP: Sequence[_Row] = (
    *_rows(
        {
            "batch": _is_on("batch"),
            "target": _differs("target", "host-cpu"),
            "loss": _differs("loss", ["cross-entropy"]),
            "shape": _is_on("shape"),
        },
        lambda args: not _has_models(args),
        "it is of models, and artifacts have their own",
    ),
)
_OF_CHECK = _rows(
    {
        each.name: lambda args, name=each.name: hasattr(args, name)
        for each in options_of(StepOptions)
        if each.flag
    }
    | {"target": _differs("target", "host-cpu"), "optimizer": _differs("optimizer", "sgd")},
    lambda args: args.against is not None,
    "--against compares tensors, and looks at nothing else",
)

OF_COMMANDS: Mapping[str, Sequence[_Row]] = {
    "train": _OF_TRAIN,
    "profile": (
        Idle(
            "steps_per_call",
            _differs("steps_per_call", 1),
            lambda args: args.device is None,
            "the steps of this machine wait for no link",
        ),
    ),
    "tune": _OF_TUNE,
    "sweep": _OF_SWEEP,
    "check": _OF_CHECK,
    "inspect": (
        Idle(
            "memory",
            _is_on("memory"),
            lambda args: args.layouts and not args.json,
            "--layouts prints its plan alone, for a file",
        ),
    ),
    "compare": (
        Idle(
            "module",
            _is_on("module"),
            lambda args: not _has_torch(args),
            "it is for PyTorch, which --with leaves out",
        ),
    ),
}


def idle_notes(args: Namespace) -> Iterator[str]:
    """What is to be said of options that change nothing.

    Args:
        args: of a command, as they were read.
    """
    return said_of_idle(OF_COMMANDS.get(args.command, ()), args, flag_of)
