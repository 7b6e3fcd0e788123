"""Which functions of a step can go on from features: what frozen layers make of a sample.

lines of plans and evaluations ─cut→ two lines each, and the features between them
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odtc.backends.program.features import Cut, NothingFixedError, UncutError, cut
from odtc.backends.program.lines import Line, Region
from odtc.backends.program.values import Kind, written
from odtc.core.artifact.manifest import Features, Manifest
from odtc.core.ir.place import Place
from odtc.core.printable import printable
from odtc.core.specs import WEIGHT_ROLES, Argument, Role, TensorSpec


@dataclass(frozen=True)
class Parts:
    """The functions that were cut.

    Attributes:
        features: of each.
        lines: both parts of each, by their names.
        refused: why the step was not cut; empty where it was, or where nothing frozen comes first.
    """

    features: tuple[Features, ...] = ()
    lines: Mapping[str, Line] = field(default_factory=dict)
    refused: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said of a step that computes what frozen layers make at each step anew."""
        said = f"what frozen layers make of a sample cannot be kept: {self.refused}"
        return (said,) if self.refused else ()


def cut_functions(manifest: Manifest, lines: Mapping[str, Line]) -> Parts:
    """Cuts the step of a manifest, and its evaluations where the step was cut.

    Args:
        manifest: without features.
        lines: of the functions that it names; none where a step has no program.
    """
    if not lines or not manifest.of_role(Role.FROZEN):
        return Parts()
    apart = [item.spec.name for item in manifest.of_role(Role.INPUT) if not item.place]
    if apart:
        return Parts(refused=f"the input {printable(apart[0])} holds no samples")
    # Of several plans the one that needs the least memory then; all give the same bits.
    plans = [(plan.function, manifest.arguments) for plan in manifest.plans]
    changing = {
        manifest.arguments[each.number]
        for name, _ in plans
        for each in written(lines[name])
        if each.region is Region.ARGUMENT
    }
    try:
        found = min(
            (_cut(manifest, name, items, lines[name], changing) for name, items in plans),
            key=lambda each: each[1].over.arena_bytes,
        )
    except NothingFixedError:
        return Parts()
    except UncutError as error:
        return Parts(refused=str(error))
    made = [found, *_of_evaluations(manifest, lines, changing)]
    parts = {}
    for features, each in made:
        parts |= {features.first: each.first, features.over: each.over}
    return Parts(tuple(features for features, _ in made), parts)


def _of_evaluations(
    manifest: Manifest, lines: Mapping[str, Line], changing: set[Argument]
) -> Iterator[tuple[Features, Cut]]:
    for each in manifest.evaluations:
        items = manifest.arguments_of(each)
        try:
            yield _cut(manifest, each.function, items, lines[each.function], changing)
        except UncutError:
            continue


def _cut(
    manifest: Manifest,
    function: str,
    items: Sequence[Argument],
    line: Line,
    changing: set[Argument],
) -> tuple[Features, Cut]:
    """A function cut in two, whose arguments are these.

    Raises:
        UncutError: it cannot be.
    """
    kinds = [Kind.CHANGING if item in changing else _kind(item) for item in items]
    made = cut(line, kinds, [item.role in WEIGHT_ROLES for item in items])
    samples, arguments = manifest.micro_batch, []
    for number, each in enumerate(made.features):
        if not each.shape or each.shape[0] % samples:
            raise UncutError(
                f"a feature of shape {list(each.shape)} does not hold {samples} samples along its "
                "first axis"
            )
        spec = TensorSpec(f"{function}/feature_{number}", each.shape, each.dtype)
        place = Place(0, inner=each.shape[0] // samples)
        arguments.append(Argument(Role.FEATURES, spec, place=place))
    inputs = tuple(items[number].spec.name for number in made.inputs)
    return Features(function, tuple(arguments), inputs), made


def _kind(item: Argument) -> Kind:
    if item.role is Role.FROZEN:
        return Kind.FIXED
    return Kind.FED if item.role is Role.INPUT else Kind.CHANGING
