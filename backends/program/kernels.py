"""A function of kernels as a program by itself: what is measured or tried of a GPU's kernels.

A runtime takes it like a step. Its arguments are weights, so that they come from a file and stay on
the device, and the function is an evaluation of them; its step does nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from odtc.backends.program.lines import Line, Operand, Region
from odtc.backends.program.program import (
    AtLength,
    Function,
    Input,
    Program,
    with_arguments,
    with_constants,
)
from odtc.backends.program.write import program_bytes
from odtc.core.specs import Role, TensorSpec

# The evaluation's output; an argument's name is this and its number.
OUTPUT, ARGUMENT = "result", "argument"
_RATE = TensorSpec("lr", (), "float32")
_STEP = TensorSpec("step", (), "int32")
# Arguments before those of the function.
_BEFORE = 2


def kernels_program(line: Line, arguments: Sequence[TensorSpec], kind: str) -> bytes:
    """The file of a program that computes a function.

    Args:
        line: the function.
        arguments: shape and dtype of each.
        kind: of the target that its kernels are for, such as `opencl`.
    """
    numbers = range(_BEFORE, _BEFORE + len(arguments))
    placed, constants = with_constants(with_arguments(line, numbers))
    nothing = Line((), Operand(Region.ARGUMENT, 0, 0, _RATE.dtype, ()), 0, 0)
    named = [replace(each, name=f"{ARGUMENT}{n}") for n, each in enumerate(arguments)]
    program = Program(
        identity=bytes(32).hex(),
        micro_batches=1,
        accumulate=1,
        threads=1,
        skips=False,
        scale=None,
        samples=1,
        at=(
            AtLength(
                arguments=(
                    _input(Role.LEARNING_RATE, _RATE),
                    _input(Role.STEP, _STEP),
                    *(_input(Role.PARAMETER, each) for each in named),
                ),
                functions=(
                    Function("nothing", "", nothing, (), groups=0, samples=1),
                    Function("kernels", OUTPUT, placed, line.result.shape, groups=0, samples=1),
                ),
            ),
        ),
        constants=constants,
        # Nobody comes back for what a driver has compiled of it.
        facts={"gpu": kind, "once": "1"},
    )
    return program_bytes(program)


def _input(role: Role, spec: TensorSpec) -> Input:
    return Input(role, spec, 0, None, 0.0, None, None, is_accumulator=False)
