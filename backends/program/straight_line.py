"""A function of a planned module as a list of calls, whose operands are places in memory.

Read from the module while its storage is planned and before the virtual machine's instructions are
made: there each call names its kernel, and each tensor says where it lies. A function that does
anything else than calling kernels, as one with branches would, is no straight line.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import ir, relax, tirx
from tvm.ir.expr import GenericConst

from odtc.backends.program.lines import Call, Line, Lines, Operand, Region
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT
from odtc.passes.schedule.note_writes import WRITES


class NotStraightError(Exception):
    """A function does something else than calling kernels; the text says what."""


@dataclass(frozen=True)
class _Storage:
    """Memory that tensors are placed in."""


# What a variable stands for. A call of a kernel has no value.
_Value = Operand | tuple["_Value", ...] | _Storage | None


def lines_of(planned: tvm.IRModule) -> Lines:
    """The functions of a module whose storage is planned; none where one is no straight line."""
    functions = {variable.name_hint: each for variable, each in planned.functions_items()}
    kernels = {name for name, each in functions.items() if isinstance(each, tirx.PrimFunc)}
    try:
        return Lines(
            {
                name: line_of(name, function, kernels)
                for name, function in functions.items()
                if isinstance(function, relax.Function)
            }
        )
    except NotStraightError as error:
        return Lines({}, str(error))


def line_of(name: str, function: relax.Function, kernels: Collection[str]) -> Line:
    """One function as its calls.

    Args:
        name: of the function.
        function: whose storage is planned.
        kernels: names of the kernels of its module.

    Raises:
        NotStraightError: it does something else.
    """
    made = _Reading(name, function, kernels)
    for binding in bindings_of(function):
        made.read(binding)
    result = made.value(function.body.body)
    if not isinstance(result, Operand):
        raise NotStraightError(f"{name} returns something else than one tensor")
    return Line(
        tuple(made.calls), result, made.arena_bytes, made.result_bytes, tuple(made.constants)
    )


class _Reading:
    """The state of reading a function, up to a binding."""

    def __init__(self, name: str, function: relax.Function, kernels: Collection[str]) -> None:
        self.name, self.kernels = name, kernels
        self.calls: list[Call] = []
        self.constants: list[np.ndarray] = []
        self.arena_bytes = self.result_bytes = 0
        self._numbers: dict[GenericConst, int] = {}
        # Where nothing is noted, a call may write all that it is given.
        self._writes = json.loads(str((function.attrs or {}).get(WRITES, "[]")))
        self._values: dict[relax.Var, _Value] = {
            each: _tensor(Region.ARGUMENT, number, 0, each.ty)
            for number, each in enumerate(function.params)
        }

    def read(self, binding: relax.Binding) -> None:
        """Takes note of a binding, and of the kernel that it calls.

        Raises:
            NotStraightError: it is neither a tensor nor a call of a kernel.
        """
        if not isinstance(binding, relax.VarBinding):
            raise self._refusal(type(binding).__name__)
        self._values[binding.var] = self.value(binding.value)

    def value(self, given: relax.Expr) -> _Value:
        """The value of an expression; a call of a kernel is added to the calls."""
        if isinstance(given, relax.Var) and given in self._values:
            return self._values[given]
        if isinstance(given, relax.Tuple):
            return tuple(self.value(each) for each in given.fields)
        if isinstance(given, relax.TupleGetItem):
            fields = self.value(given.tuple_value)
            assert isinstance(fields, tuple)
            return fields[given.index]
        if isinstance(given, GenericConst):
            return self._constant(given)
        if not isinstance(given, relax.Call):
            raise self._refusal(type(given).__name__)
        if isinstance(given.op, ir.GlobalVar) and given.op.name_hint in self.kernels:
            return self._call(given.op.name_hint, given.args)
        read = _OPERATORS.get(operator_of(given))
        if read is None:
            raise self._refusal(_called(given))
        return read(self, *given.args)

    def _call(self, kernel: str, arguments: Collection[relax.Expr]) -> None:
        operands = tuple(self.value(each) for each in arguments)
        tensors = tuple(each for each in operands if isinstance(each, Operand))
        if tensors != operands:
            raise self._refusal(f"{kernel} with something else than tensors")
        given, *changed = self._writes[len(self.calls)] if self._writes else [0]
        self.calls.append(Call(kernel, tensors, given, tuple(changed)))

    def _constant(self, given: GenericConst) -> Operand:
        if given not in self._numbers:
            self._numbers[given] = len(self.constants)
            self.constants.append(given.value.numpy())
        number = self._numbers[given]
        array = self.constants[number]
        return Operand(Region.CONSTANT, number, 0, str(given.value.dtype), array.shape)

    def allocate(self, size: relax.ShapeExpr, *_: object) -> _Storage:
        """The arena, of which a function has one."""
        if self.arena_bytes:
            raise self._refusal("alloc_storage twice")
        self.arena_bytes = int(size.values[0])
        return _Storage()

    def place(
        self,
        storage: relax.Expr,
        offset: relax.Expr,
        shape: relax.ShapeExpr,
        dtype: relax.Expr,
        *_: object,
    ) -> Operand:
        """A tensor in the arena."""
        assert isinstance(self.value(storage), _Storage)
        return Operand(Region.ARENA, 0, int(offset.value), str(dtype.value), _sizes(shape))

    def result(self, shape: relax.ShapeExpr, dtype: relax.Expr, *_: object) -> Operand:
        """A tensor that is allocated for the result."""
        made = Operand(Region.RESULT, 0, self.result_bytes, str(dtype.value), _sizes(shape))
        bytes_of = int(np.prod(made.shape, dtype=np.int64)) * np.dtype(made.dtype).itemsize
        self.result_bytes += -(-bytes_of // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT
        return made

    def reshape(self, tensor: relax.Expr, shape: relax.ShapeExpr) -> Operand:
        """The same elements by another shape."""
        of = self.value(tensor)
        assert isinstance(of, Operand)
        return Operand(of.region, of.number, of.offset, of.dtype, _sizes(shape))

    def _refusal(self, what: str) -> NotStraightError:
        return NotStraightError(f"{self.name} calls {what}")


# What makes a tensor, or the memory for it.
_OPERATORS = {
    "relax.memory.alloc_storage": _Reading.allocate,
    "relax.memory.alloc_tensor": _Reading.place,
    "relax.builtin.alloc_tensor": _Reading.result,
    "relax.reshape": _Reading.reshape,
}


def _called(call: relax.Call) -> str:
    """Names the callee of a call, for messages."""
    names: Iterator[str] = (str(getattr(call.op, each, "")) for each in ("name", "global_symbol"))
    return next((name for name in names if name), str(call.op))


def _tensor(region: Region, number: int, offset: int, of: relax.TensorType) -> Operand:
    return Operand(region, number, offset, str(of.dtype), _sizes(of.shape))


def _sizes(shape: relax.ShapeExpr) -> tuple[int, ...]:
    return tuple(int(each) for each in shape.values)
