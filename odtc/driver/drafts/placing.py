"""Which axes of a model's inputs and outputs hold the samples of a batch: found, not guessed.

A file may mean several things, of which each makes a draft. A draft is compared with one of twice
the batch; the first one is taken whose samples can be followed to all outputs.
"""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odtc.core.errors import ModelError, OdtcError, UnsupportedError, UsageError
from odtc.core.ir.place import Place
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.source import Source
from odtc.frontend.feeds import batch_symbol, feeds_of, hypotheses
from odtc.frontend.split.locate import Located, as_said, locate, nowhere


@dataclass(frozen=True)
class Placing:
    """Makes drafts of a model, and finds the samples in them.

    Attributes:
        sketch: a draft of the model's own nodes, with the axes of the source and so many samples;
            as many as the user says if None.
        normalise: the same with its graph normalised; raises where nodes cannot be trained.
    """

    sketch: Callable[[Source, int | None], Draft]
    normalise: Callable[[Draft], Draft]

    def likeliest(self, source: Source) -> Draft:
        """The first sketch, or where that cannot be trained another whose samples can be followed.

        Raises:
            OdtcError: there is none; what is said of the first one.
        """
        first, *others = hypotheses(feeds_of(source.model), source.asked)
        refused: OdtcError | None = None
        likeliest: Draft | None = None
        try:
            likeliest = self.sketch(dataclasses.replace(source, axes=first), None)
            if not _is_blocked(likeliest):
                return likeliest
        except ModelError as error:
            refused = error
        for axes in others:
            with contextlib.suppress(ModelError, UnsupportedError, UsageError):
                other = self.sketch(dataclasses.replace(source, axes=axes), None)
                if not _is_blocked(other) and self._shows(other.source):
                    return other
        if likeliest is None:
            assert refused
            raise refused
        return likeliest

    def located(self, draft: Draft) -> Draft:
        """The first draft whose samples can be followed, of all that the model may mean, else this.

        Raises:
            UsageError: the user says that the samples are where they are not.
        """
        likeliest, source = self._locate(draft), draft.source
        is_named = batch_symbol(feeds_of(source.model), source.asked.batch_axes) is not None
        # Where no output grows with the batch, as of a loss, only a name says that it is one.
        if likeliest.is_shown or (is_named and not likeliest.refusals):
            return _with_places(draft, likeliest)
        for each in self._others(draft):
            found = self._locate(each)
            if found.is_shown:
                return _with_places(each, found)
        if not likeliest.refusals:
            draft.graph.notes += _said_of_a_guess(draft)
        return _with_places(draft, likeliest)

    def _shows(self, source: Source) -> bool:
        """Whether the samples can be followed from the axes of a source to an output."""
        with contextlib.suppress(OdtcError):
            return self._locate(self.normalise(self.sketch(source, None))).is_shown
        return False

    def _others(self, draft: Draft) -> Iterator[Draft]:
        """Drafts of what else the model may mean."""
        source = draft.source
        meant = hypotheses(feeds_of(source.model), source.asked)
        behind = itertools.dropwhile(lambda axes: axes != source.axes, meant)
        for axes in itertools.islice(behind, 1, None):
            # That another meaning does not fit is no fault of the model: this one does.
            with contextlib.suppress(ModelError, UnsupportedError, UsageError):
                sketch = self.sketch(dataclasses.replace(source, axes=axes), None)
                yield self.normalise(sketch)

    def _locate(self, draft: Draft) -> Located:
        """Where the samples lie, by comparison with twice the batch."""
        aims, evaluated = draft.objective.aims, dict(draft.objective.evaluated)
        names = {aim.output: number for number, aim in enumerate(aims)} | evaluated
        try:
            twin = self.normalise(self.sketch(draft.source, 2 * draft.batch))
            found = locate(draft.graph, twin.graph)
        except OdtcError as error:
            what = f"it takes no other batch than {draft.batch}: of {2 * draft.batch}, {error.what}"
            found = nowhere(draft.graph, OdtcError(what, where=error.where))
        return as_said(found, draft.graph, names, draft.source.asked.batch_axes)


def _is_blocked(sketch: Draft) -> bool:
    return any(node.blocks for node in sketch.reports)


def _with_places(draft: Draft, found: Located) -> Draft:
    draft.graph.places |= found.labels
    draft.graph.notes += [*_said_of_inputs(draft), *_said_of_outputs(draft, found)]
    objective = dataclasses.replace(
        draft.objective, places=found.outputs, declared=tuple(_declared(draft))
    )
    return dataclasses.replace(draft, objective=objective)


def _declared(draft: Draft) -> Iterator[Place | None]:
    """Where the samples lie in each output with a loss by the batch's name, which the file gives.

    That is enough for a label: it has an entry where its output has one. It is not for evaluations,
    as the name says nothing of whether a sample's entry follows from that sample alone.
    """
    graph, source = draft.graph, draft.source
    said = source.asked.batch_axes
    symbol = batch_symbol(feeds_of(source.model), said)
    values = {value.name: value.type.tensor_type.shape.dim for value in source.model.graph.output}
    for number, name in enumerate(graph.outputs):
        aim = draft.objective.aims[number].output if number < len(draft.objective.aims) else ""
        dims = [dim.dim_param for dim in values.get(aim, ())]
        shape = graph.shapes.get(name, ())
        if not symbol or aim in said or dims.count(symbol) != 1 or len(dims) != len(shape):
            yield None
            continue
        place = Place(dims.index(symbol))
        yield place if place.count(shape) == draft.batch else None


def _said_of_a_guess(draft: Draft) -> Iterator[str]:
    """Notes on an axis that is taken for the batch, though no output grows with it.

    Raises:
        ModelError: the user asks for another size of it than the file has.
    """
    graph, asked = draft.graph, draft.source.asked
    guessed = [name for name in graph.places if name not in asked.batch_axes]
    # Whatever is one number, as a loss, grows with nothing.
    if not guessed or not any(math.prod(graph.shapes.get(name, ())) > 1 for name in graph.outputs):
        return
    name, axis = guessed[0], graph.places[guessed[0]].axis
    dims = next(feed.dims for feed in feeds_of(draft.source.model) if feed.name == name)
    what = f"nothing shows that axis {axis} of {name} holds the samples: no output grows with it"
    if asked.batch not in (None, dims[axis]):
        raise ModelError(
            f"{what}, so that the batch of the file, of fixed sizes, cannot become {asked.batch}",
            where=f"input {name}",
            hint=f"say where they lie: --batch-axis {name}=AXIS; or export with a batch that may "
            "change, or by odtc.from_torch",
        )
    yield f"{what}; --batch-axis {name}=AXIS says where they lie"


def _said_of_inputs(draft: Draft) -> Iterator[str]:
    """Notes on axes that no symbol of the file and no user names."""
    source = draft.source
    if batch_symbol(feeds_of(source.model), source.asked.batch_axes) is not None:
        return
    for name, place in draft.graph.places.items():
        if place.axis and name not in source.asked.batch_axes:
            yield f"{name}: the samples lie along its axis {place.axis}, each computed alone there"


def _said_of_outputs(draft: Draft, found: Located) -> Iterator[str]:
    """Notes on outputs in which nothing shows where the samples are."""
    for name, number in draft.objective.evaluated:
        error = found.refusals.get(number)
        if error is not None:
            what = error.what.splitlines()[0].removesuffix(":")
            why = f"{what}, {error.where}" if error.where else what
            yield (
                f"{name}: nothing shows where the samples lie in it ({why}): it is evaluated for "
                f"whole batches only; --batch-axis {name}=AXIS, or that of an input, says where"
            )
