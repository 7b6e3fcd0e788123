"""How much the loss of a step counts in a mean over several steps: as much as its labels weigh.

A loss that is a mean over the labels that it does not ignore, or over their classes' weights, is
over another number in each batch. The loss of several batches as one, as a validation tells it, is
the mean of theirs weighed by that: `sum(weight * loss) / sum(weight)`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import FED_ROLES, Argument
from odtc.runtime_rpc.loop.measured.loss_values import factors
from odtc.runtime_rpc.loop.measured.terms import LossTerm, loss_terms
from odtc.runtime_rpc.loop.measured.unlabelled import Uncounted

# What a step is fed, by name.
Labels = Mapping[str, np.ndarray]


class LabelWeights:
    """What the labels of the batches of a step weigh.

    Args:
        manifest: of the step.
    """

    def __init__(self, manifest: Manifest) -> None:
        terms = loss_terms(manifest)
        if any(term.label for term in terms):
            self._of = _rule(terms, has_lengths=bool(manifest.shorter))
        else:
            self._of = _rule_of_nodes(manifest)

    def of(self, fed: Mapping[Argument, np.ndarray]) -> float:
        """What the labels of a batch weigh together: the number that the mean of its loss is over.

        1 of every batch where that number is the same for all, or where nothing shows it: the model
        computes the loss, or there are several. 0 where no label counts.

        Args:
            fed: what a step is fed, by its arguments; class numbers are in their range.
        """
        if self._of is None:
            return 1.0
        return self._of({item.spec.name: array for item, array in fed.items()})


def uncounted(manifest: Manifest, fed: Mapping[Argument, np.ndarray] | None = None) -> Uncounted:
    """Why labels count for nothing.

    Args:
        manifest: of the step.
        fed: a batch of which none counts, by the step's arguments; None for what may be of any.
    """
    ignoring, weightless = _ignoring(manifest), _weightless(manifest)
    if fed is None:
        return Uncounted(next(iter(ignoring.values()), None), is_by_class=bool(weightless))
    held = {item.spec.name: array for item, array in fed.items()}
    held |= {each.name: each.of(held[each.name]) for each in manifest.counted if each.name in held}
    ignored = (n for name, n in ignoring.items() if name in held and np.any(held[name] == n))
    by_class = (
        np.isin(held[name], numbers) & (held[name] != ignoring.get(name))
        for name, numbers in weightless.items()
    )
    return Uncounted(next(ignored, None), is_by_class=any(map(np.any, by_class)))


def _weightless(manifest: Manifest) -> dict[str, np.ndarray]:
    """The classes that weigh nothing in a loss, by the name of the label."""
    found = {
        term.label.spec.name: np.flatnonzero(
            factors(term.options["weight"], term.label.classes.count) == 0
        )
        for term in loss_terms(manifest)
        if term.label and term.label.classes and "weight" in term.options
    }
    return {name: numbers for name, numbers in found.items() if numbers.size}


def _ignoring(manifest: Manifest) -> dict[str, int]:
    """What is fed that may be ignored, and by which number."""
    fed = manifest.of_role(*FED_ROLES)
    pairs = [(item.spec.name, item.classes.ignored) for item in fed if item.classes]
    pairs += [(each.name, each.classes.ignored) for each in manifest.counted]
    return {name: ignored for name, ignored in pairs if ignored is not None}


def mean_text(manifest: Manifest) -> str:
    """Says that losses of rows are means over steps, though labels count differently; else empty.

    So it is where there are several losses, of whose sum nothing shows what each label has of it.
    """
    terms = loss_terms(manifest)
    if len(terms) < 2 or not any(map(_counts, terms)):
        return ""
    return (
        "the loss of the history is a mean over steps, each of which counts the same: there are "
        "several losses, which are means over different labels; that of a validation is over labels"
    )


def _rule(terms: Sequence[LossTerm], *, has_lengths: bool) -> Callable[[Labels], float] | None:
    """What makes the weight of labels; None where it is 1."""
    counting = [term for term in terms if _counts(term)]
    if len(terms) == 1 and terms[0].options.get("reduction", _usual(terms[0])) == "mean":
        if counting:
            return _weighed(terms[0])
        return partial(_size, terms[0]) if has_lengths else None
    if counting and len(counting) == len(terms):
        return partial(_any, [*map(_weighed, counting)])
    return None


def _rule_of_nodes(manifest: Manifest) -> Callable[[Labels], float] | None:
    """The rule for labels of losses that are nodes of the model, or of a graph: 1 or 0."""
    counted = manifest.counted

    def some(fed: Labels) -> float:
        # A step that goes on from features is fed no input that these took the place of.
        return float(
            any(
                each.name not in fed or np.any(each.of(fed[each.name]) != each.classes.ignored)
                for each in counted
            )
        )

    return some if counted else None


def _counts(term: LossTerm) -> bool:
    """Whether a label of it may count for nothing, or for more than another."""
    is_of_classes = term.label is not None and term.label.classes is not None
    return is_of_classes and bool({"ignore-index", "weight"} & term.options.keys())


def _usual(term: LossTerm) -> str:
    return "batchmean" if term.name == "kl-div" else "mean"


def _weighed(term: LossTerm) -> Callable[[Labels], float]:
    """How many labels of a term are not ignored, or what their classes weigh."""
    assert term.label
    assert term.label.classes
    name, ignored = term.label.spec.name, term.options.get("ignore-index")
    number = None if ignored is None else int(ignored)
    if "weight" not in term.options:
        return lambda fed: float(np.count_nonzero(fed[name] != number))
    by_class = factors(term.options["weight"], term.label.classes.count)

    def weight(fed: Labels) -> float:
        held = fed[name]
        return float(by_class[held if number is None else held[held != number]].sum())

    return weight


def _size(term: LossTerm, labels: Labels) -> float:
    """How many labels there are, of a step that has several lengths."""
    assert term.label
    return float(labels[term.label.spec.name].size)


def _any(weights: Sequence[Callable[[Labels], float]], labels: Labels) -> float:
    return float(any(weight(labels) for weight in weights))
