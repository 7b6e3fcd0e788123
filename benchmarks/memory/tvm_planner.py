"""TVM's own memory planner on steps of odtc.

Both start from the phase of passes in which odtc plans its memory, and put TVM's planner in the
place of odtc's.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

import tvm
from tvm import relax
from tvm.relax import transform as X  # noqa: N812
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.backends import lowering
from odtc.passes.contract import Pass, tvm_passes
from odtc.passes.graph.immediate_update import ImmediateUpdate
from odtc.passes.graph.return_loss import ReturnLoss
from odtc.passes.memory.arena import PlanMemory, TakeOffsets
from odtc.passes.schedule.order_calls import OrderCalls

_IN_PLACE = "relax.call_tir_inplace"
_NEW = "new_tensors"


def planner_alone(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The phase with TVM's planner; its tensors begin where their storages do."""
    (planner,) = tvm_passes(X.StaticPlanBlockMemory)
    kept = [each for each in passes if not isinstance(each, TakeOffsets)]
    return tuple(planner if isinstance(each, PlanMemory) else each for each in kept)


def as_relax_training(passes: tuple[Pass, ...], step: str) -> tuple[Pass, ...]:
    """The phase with TVM's planner, and updates at the end, into tensors that are returned."""
    ours = (ImmediateUpdate, OrderCalls, ReturnLoss)
    kept = [each for each in planner_alone(passes) if not isinstance(each, ours)]
    return (NewParameters(step), *kept)


@contextmanager
def planned_by_tvm() -> Iterator[None]:
    """Lets TVM plan the memory of what is compiled within the block."""
    plan_phase = lowering.plan_phase
    with (
        mock.patch.object(lowering, "plan_phase", lambda *of: planner_alone(plan_phase(*of))),
        mock.patch.object(lowering, "TakeArena", IgnoreArena),
    ):
        yield


@dataclass(frozen=True)
class IgnoreArena(Pass):
    """Functions are given an arena as odtc's are, and allocate their storages themselves.

    Attributes:
        functions: their names.
    """

    name: ClassVar[str] = "ignore-arena"
    functions: Sequence[str]

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions."""
        given = module.clone()
        for name in self.functions:
            step = module[name]
            parameters = [*step.params, relax.Var("arena", relax.AnyType())]
            ignoring = relax.Function(parameters, step.body, step.ret_ty, step.is_pure, step.attrs)
            given.update_func(module.get_global_var(name), ignoring)
        return given


@dataclass(frozen=True)
class NewParameters(Pass):
    """Gives calls new tensors for parameters that they would change in place.

    It is for planning alone: the functions that would write the new tensors do not exist.

    Attributes:
        function: name of the training step.
    """

    name: ClassVar[str] = "new-parameters"
    function: str

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the step."""
        step = module[self.function]
        module = module.clone()
        updates = _Updates(set(step.params))
        module.update_func(module.get_global_var(self.function), updates.visit_expr(step))
        return module


@mutator
class _Updates(PyExprMutator):
    """Replaces updates of parameters by calls of packed functions that return their results.

    Where a parameter is updated by blocks, its first block makes the new tensor for all of them.
    """

    def __init__(self, parameters: set[relax.Var]):
        super().__init__()
        self._parameters = parameters
        self._new: dict[relax.Var, relax.Var] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:  # pyright: ignore
        """A call of the step."""
        if getattr(call.op, "name", "") != _IN_PLACE:
            return super().visit_call_(call)
        arguments = list(call.args[1].fields)
        changed = [arguments[int(index)] for index in call.attrs.inplace_indices]
        if not self._parameters.intersection(changed):
            return super().visit_call_(call)
        if changed[0] not in self._new:
            inputs = [self.visit_expr(each) for each in arguments]
            (type_,) = call.ty_args
            made = relax.call_dps_packed(_NEW, inputs, type_)
            self._new[changed[0]] = self.builder_.emit(made)
        return self._new[changed[0]]
