"""Writes odtc/driver/entry_points.py: `odtc.compile` and `odtc.plan` with an argument per option.

An option is said once, in the table of `StepOptions`. Editors and `help()` show signatures and
docstrings as they are in the source, so these are written from the table rather than made when they
are imported. `python -m tests.reference_pages` writes the file, beside the pages.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from odtc.driver.options import step_options
from odtc.driver.options.option import Option, options_of
from odtc.driver.options.step_options import StepOptions

_WIDTH, _NO_BREAK = 100, "\N{NO-BREAK SPACE}"
_HEAD = '''"""`odtc.compile` and `odtc.plan`, as their users call them.

Here text becomes what the driver takes: a `Target`, `StepOptions`, a budget in bytes.
`python -m tests.reference_pages` writes this file, from the table of options in
`odtc/driver/options/step_options.py`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

'''
_IMPORTS = (
    "from odtc.artifact import Artifact",
    "from odtc.backends.targets import Target, as_target",
    "from odtc.core.options.arguments import takes",
    "from odtc.core.options.byte_sizes import parse_budget",
    "from odtc.core.options.kinds import ANYTHING, FUNCTION, optional, whole_from",
    "from odtc.core.process.progress import Progress, silent",
    "from odtc.driver.compilation import compile_step",
    "from odtc.driver.frontier import Frontier",
    "from odtc.driver.options.kinds import MODEL, TARGET",
    "from odtc.driver.options.on_device import on_device",
    "from odtc.driver.options.option import kinds_of",
    "from odtc.driver.options.step_options import OLD_NAMES, StepOptions",
)


@dataclass(frozen=True)
class _Argument:
    """An argument: one of the function's own, or an option.

    Attributes:
        name: of it.
        annotation: its type.
        default: as the source has it; empty for none.
        docs: what it does.
    """

    name: str
    annotation: str
    default: str
    docs: str

    @property
    def declared(self) -> str:
        """Its part of the signature."""
        return f"{self.name}: {self.annotation}" + f" = {self.default}" * bool(self.default)


_PATH = _Argument("model", "str | os.PathLike[str]", "", "path of the ONNX file.")
_TARGET = _Argument(
    "target",
    "str | Target",
    '"host-cpu"',
    "name of a target, such as `host-cpu` or `android-cpu{mcpu=cortex-a76}`.",
)
_PROGRESS = _Argument(
    "progress", "Progress", "silent", "called with the name of each stage as it starts."
)
_BUDGET = _Argument(
    "memory_budget",
    "int | str | None",
    "None",
    "bytes that the tensors of a step may take in addition to parameters and optimizer state, "
    "such as `64MiB`. To fit, the step recomputes some tensors or runs as micro-batches, "
    "whichever is faster; the buffers that accumulate gradients count towards the budget. With "
    "`auto` the artifact holds several plans, from the fastest to the smallest, between which "
    "`Trainer.set_budget` and `Trainer.follow_memory` switch; they differ in what is recomputed, "
    "and give the same bits.",
)
_COUNT = _Argument(
    "count",
    "int | None",
    "None",
    "approximate number of points, evenly spaced in bytes, for networks that have too many: for "
    "a deep one, most of the time is spent on their arenas. By default all points.",
)

_COMPILE = '''@takes(
    "odtc.compile",
    "",
    OLD_NAMES,
    **kinds_of(StepOptions),
    model=MODEL,
    target=TARGET,
    memory_budget=ANYTHING,  # `parse_budget` reads it
    progress=FUNCTION,
)
def compile_model(  # noqa: PLR0913 - one keyword for each choice of the user
{signature}) -> Artifact:
    """Compiles an ONNX inference model into a training step.

    Args:
{docs}
    Returns:
        The artifact, unsaved.

    Raises:
        OdtcError: the model, an option or the machine does not allow it; see `odtc.core.errors`.
    """
    options = StepOptions(
{options}    )
    options = on_device(options, as_target(target))
    budget = parse_budget(memory_budget, "memory_budget")
    return compile_step(Path(model), as_target(target), options, budget, progress)
'''
_PLAN = '''@takes(
    "odtc.plan",
    "",
    OLD_NAMES,
    **kinds_of(StepOptions),
    model=MODEL,
    target=TARGET,
    count=optional(whole_from(1)),
    progress=FUNCTION,
)
def plan_model(  # noqa: PLR0913 - one keyword for each choice of the user
{signature}) -> Frontier:
    """Finds which memory budgets a step can meet, and how.

    Args:
{docs}
    Returns:
        The budgets, with the time that each costs.

    Raises:
        OdtcError: as for `odtc.compile`.
    """
    # It brings TVM.
    from odtc.driver.planning import find_frontier

    options = StepOptions(
{options}    )
    options = on_device(options, as_target(target))
    return find_frontier(model, as_target(target), options, count, progress)
'''


def entry_points() -> str:
    """The source of the file."""
    described = [_argument_of(each) for each in options_of(StepOptions)]
    at = 1 + next(n for n, each in enumerate(described) if each.name == "precision")
    keywords = [*described[:at], _BUDGET, *described[at:], _PROGRESS]
    imports = sorted((*_IMPORTS, *_imported_types()), key=lambda line: line.split()[1])
    return "\n\n".join(
        [
            _HEAD + "\n".join(imports) + "\n",
            _filled(_COMPILE, [_PATH, _TARGET], keywords),
            _filled(_PLAN, [_PATH, _TARGET], [_COUNT, _PROGRESS, *described]),
        ]
    )


def _imported_types() -> Iterator[str]:
    """The imports that the table needs for its types alone."""
    for node in ast.parse(inspect.getsource(step_options)).body:
        if isinstance(node, ast.If):
            yield from map(ast.unparse, node.body)


def _argument_of(option: Option) -> _Argument:
    default = option.default
    text = f'"{default}"' if isinstance(default, str) else repr(default)
    return _Argument(option.name, option.annotation, text, option.docs)


def _filled(template: str, leading: list[_Argument], keywords: list[_Argument]) -> str:
    """The source of one function."""
    declared = [each.declared for each in leading] + ["*"] + [each.declared for each in keywords]
    return template.format(
        signature="".join(f"    {each},\n" for each in declared),
        docs="".join(f"{_wrapped(each)}\n" for each in (*leading, *keywords)),
        options="".join(f"        {o.name}={o.name},\n" for o in options_of(StepOptions)),
    )


def _wrapped(argument: _Argument) -> str:
    # Code is not broken.
    docs = re.sub("`[^`]*`", lambda code: code[0].replace(" ", _NO_BREAK), argument.docs)
    wrapped = textwrap.fill(
        f"{argument.name}: {docs}",
        _WIDTH,
        initial_indent=8 * " ",
        subsequent_indent=12 * " ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace(_NO_BREAK, " ")
