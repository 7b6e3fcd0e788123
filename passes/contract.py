"""The contract of a pass, and how a pipeline of passes runs.

A pass is a frozen dataclass: its options are its fields, and it prints as text, such as
`schedule-cpu{lanes=16}`. Fields with `repr=False` are no options: functions, tables and names that
a target or a step brings. A pipeline is a tuple of passes; `passes/pipeline/` reads its text.
Printing and timing are TVM's `pass_instrument`s, never in the pipeline. The module that a pipeline
makes is verified; where it is wrong, so is each between two passes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.errors import OdtcError
from odtc.core.options.checked_options import format_choice
from odtc.passes.ir.verify import verify


@dataclass(frozen=True)
class Pass(ABC):
    """One rewrite of an IRModule."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Returns the rewritten module; the given one stays as it is."""

    @property
    def title(self) -> str:
        """The name that the text of a pipeline, and TVM's instruments, have for it."""
        return self.name

    def __str__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.repr}
        return format_choice(self.title, {k: "none" if v is None else v for k, v in given.items()})

    def to_tvm(self, refuse: Callable[[OdtcError], None]) -> tvm.transform.Pass:
        """The pass in TVM's own form, so that TVM's instruments see it by its name.

        Args:
            refuse: is given an error of the user's, of which TVM would keep the text alone.
        """

        def run(module: tvm.IRModule, _: object) -> tvm.IRModule:
            try:
                return self.run(module)
            except OdtcError as error:
                refuse(error)
                raise

        return tvm.transform.module_pass(run, opt_level=0, name=self.title)


Pipeline = tuple[Pass, ...]


@dataclass(frozen=True)
class TvmPass(Pass):
    """A pass of TVM's own, under our contract.

    Attributes:
        label: the pass's name in TVM.
    """

    name: ClassVar[str] = "tvm"
    label: str = field(repr=False)
    make: Callable[[], tvm.transform.Pass] = field(repr=False)

    @property
    def title(self) -> str:
        """The pass's name in TVM, as of TVM's."""
        return f"{self.name}.{self.label}"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Applies the pass."""
        return self.make()(module)


def tvm_passes(*makers: Callable[[], tvm.transform.Pass]) -> tuple[TvmPass, ...]:
    """TVM's passes as ours, named by their makers."""
    return tuple(TvmPass(make.__name__, make) for make in makers)


class PassError(RuntimeError):
    """A pass failed or left a module that is not well formed: a fault of odtc, not of its user."""


def run_pipeline(
    passes: Sequence[Pass], module: tvm.IRModule, *, types: bool = True
) -> tvm.IRModule:
    """Runs the passes in order and verifies what they make.

    To verify a module and its types takes longer than most passes. Where a pass fails, or the last
    module is wrong, the passes run again, and each module in between is verified.

    Args:
        passes: to run.
        module: that they rewrite.
        types: whether those of what they make are verified, too, and not its form alone.

    Raises:
        PassError: a pass failed; the message names it and those that ran before it.
        OdtcError: what was asked of a pass cannot be done.
    """
    try:
        made = _run(passes, module, verified=False)
        verify(made, types=types)
    except OdtcError:
        raise
    except Exception:
        with _unwatched():
            _run(passes, module, verified=True)
        raise
    return made


def _unwatched() -> tvm.transform.PassContext:
    """A context without instruments, which have seen the passes already."""
    now = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(opt_level=now.opt_level, config=dict(now.config))


def _run(passes: Sequence[Pass], module: tvm.IRModule, *, verified: bool) -> tvm.IRModule:
    done: list[str] = []
    refused: list[OdtcError] = []
    for item in passes:
        try:
            module = item.to_tvm(refused.append)(module)
            if verified:
                relax.analysis.well_formed(module, check_ty=True)
        except Exception as error:
            if refused:
                raise refused[0] from None
            before = ", ".join(done) or "none"
            raise PassError(f"pass {item} failed (passes before it: {before}): {error}") from error
        done.append(str(item))
    return module
