"""Notes on a step that was built: what its user should know of how it runs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from odtc.backends.targets import CPU, Target
from odtc.core.options.byte_sizes import AUTO
from odtc.driver.drafts.source import Source
from odtc.driver.fitting import BuiltPlans
from odtc.passes.checkpoint.cuts import KernelForm

# What is said of a step that would not fit otherwise.
DIRECT_CONVOLUTIONS = (
    "no convolution is in Winograd's form, whose workspaces do not fit: results are rounded "
    "otherwise than without a budget"
)
HALF_ACTIVATIONS = (
    "what the backward pass reads of the forward pass is stored as float16: the loss is exact, and "
    "gradients are those of values rounded by at most 1 part in 2,048, or by 3e-8 where they are "
    "below 6e-5"
)


def notes_on(
    source: Source, every: Sequence[BuiltPlans], budget: int | str | None
) -> Iterator[str]:
    """Notes on arithmetic, budget, kernels, and what the native runtime cannot run.

    Args:
        source: what was asked for; the step itself may store more as float16 to fit.
        every: the step at each of its lengths, the longest first.
        budget: that it was built for; see `odtc.compile`.
    """
    made = every[0]
    built = made.built
    if len(every) > 1:
        yield _said_of_lengths(every)
    if source.saves_half:
        yield _arithmetic(source.target, built.half_products, source.has_half)
    yield from _said_of_form(made.form)
    if isinstance(budget, int):
        yield f"to fit {budget:,} bytes {built.steps[0].repeated}"
    elif budget == AUTO:
        yield _said_of_plans(made)
    if built.winograd:
        yield f"{_kernels(len(built.winograd))} in Winograd's form: {', '.join(built.winograd)}"
    yield from _measured(built.tuned)
    if built.lines.refused:
        yield f"there is no program for the native runtime: {built.lines.refused}"


def _said_of_form(form: KernelForm) -> Iterator[str]:
    """Notes on kernels that differ from those without a budget."""
    said = {HALF_ACTIVATIONS: form.half, DIRECT_CONVOLUTIONS: form.direct}
    return (note for note, is_so in said.items() if is_so)


def _said_of_lengths(every: Sequence[BuiltPlans]) -> str:
    """Notes on what a step takes at each of its lengths."""
    said = [
        f"{each.step.source.length} takes {each.built.steps[0].arena_bytes:,} bytes"
        for each in every
    ]
    keys = every[0].built.objects.keys
    called = [name for each in every for name in each.built.lines.kernels]
    return (
        f"{len(every)} lengths, each with a plan of its own: {', '.join(said)}; of their "
        f"{len(called)} kernels {len({keys.get(name, name) for name in called})} differ"
    )


def _said_of_plans(made: BuiltPlans) -> str:
    """Notes on several plans."""
    arenas = [step.arena_bytes for step in made.built.steps]
    if len(arenas) == 1:
        return f"one plan, of {arenas[0]:,} bytes: no other one takes fewer"
    return (
        f"{len(arenas)} plans, from {arenas[0]:,} bytes to {arenas[-1]:,} in {made.times[-1]:.2f} "
        f"times the time, by a model of the target{made.measured}"
    )


def _arithmetic(target: Target, half_products: int, has_half: bool) -> str:
    """Notes on the arithmetic of a step in mixed precision."""
    if not has_half and target.kind != CPU and not target.gpu:
        return "arithmetic is float32: gpu= names no GPU that is known to compute with float16"
    if not has_half:
        return f"arithmetic is float32: {target.spec} has none for float16"
    if not half_products:
        return "no kernel multiplies float16, as none would gain by it; the loss is scaled"
    multiplies, adds = ("multiplies", "adds") if half_products == 1 else ("multiply", "add")
    return (
        f"{_kernels(half_products)} {multiplies} float16 and {adds} up float32; the loss is scaled"
    )


def _measured(tuned: Mapping[str, str]) -> Iterator[str]:
    """Notes on kernels whose loops were measured."""
    if tuned:
        counts = sorted(Counter(tuned.values()).items())
        sources = ", ".join(f"{count} on {source}" for source, count in counts)
        kernels = _kernels(len(tuned))
        yield f"{kernels} with the loops that were the fastest when measured: {sources}"


def _kernels(count: int) -> str:
    return f"{count} kernel" if count == 1 else f"{count} kernels"
