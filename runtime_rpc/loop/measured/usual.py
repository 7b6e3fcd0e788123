"""What is measured without being asked for."""

from collections.abc import Sequence

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Argument, Role
from odtc.runtime_rpc.loop.measured.metrics import Function, Metric, Perplexity


def with_usual(
    asked: Sequence[Metric | Function], manifest: Manifest
) -> tuple[Metric | Function, ...]:
    """The metrics that are asked for, and the usual ones that are not among them."""
    keys = {each.key for each in asked}
    return (*asked, *(each for each in usual_metrics(manifest) if each.key not in keys))


def usual_metrics(manifest: Manifest) -> tuple[Metric, ...]:
    """The perplexity of a language model; of other models none."""
    reads_words = any(item.rows for item in manifest.fed(Role.INPUT))
    is_language = reads_words and len(manifest.labels) == 1 and _is_word(manifest.labels[0])
    return (Perplexity(),) if is_language and manifest.loss.startswith("cross-entropy") else ()


def _is_word(label: Argument) -> bool:
    """Whether labels are numbers of words, one for each that the model reads."""
    rank = len(label.spec.shape)
    return rank > 1 and label.classes is not None and label.classes.axis == rank
