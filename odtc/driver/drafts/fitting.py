"""What is asked of a step, checked against itself and the target before a model is read."""

from odtc.backends.targets import CPU, Target
from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.options.option_text import did_you_mean
from odtc.driver.options.step_options import StepOptions
from odtc.frontend.trained.quantise import parse_format

PRECISIONS = ("float32", "mixed")


def check_target(target: Target, options: StepOptions) -> None:
    """Checks that a target can do what is asked.

    Raises:
        UnsupportedError: it cannot.
        UsageError: an option is malformed.
    """
    _check_offload(target, options)
    if options.quantize is not None:
        parse_format(options.quantize)


def wants_mixed(options: StepOptions) -> bool:
    """Whether the user asks for mixed precision."""
    if options.precision not in PRECISIONS:
        raise UsageError(
            f"unknown precision {options.precision!r}",
            hint=f"{did_you_mean(options.precision, PRECISIONS)}one of: {', '.join(PRECISIONS)}",
        )
    is_mixed = options.precision == "mixed"
    if is_mixed and options.allow_half_activations:
        raise UsageError(
            "saved activations are float16 in mixed precision, with or without a budget",
            where="allow_half_activations",
            hint="leave --allow-half-activations out, or --precision mixed",
        )
    return is_mixed


def _check_offload(target: Target, options: StepOptions) -> None:
    if options.offload and target.kind != CPU:
        raise UnsupportedError(
            f"tensors of {target.name} cannot wait in storage: its GPU cannot read files",
            where="offload",
            hint="leave --offload out, or compile for a CPU",
        )
