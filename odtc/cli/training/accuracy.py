"""The accuracy of a trained model, on samples that it was not trained with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from odtc.core.errors import UsageError

if TYPE_CHECKING:
    from odtc.cli.training.samples import Samples
    from odtc.core.artifact.manifest import Manifest
    from odtc.core.specs import Argument, Classes
    from odtc.runtime_rpc.trainer import Trainer


@dataclass(frozen=True)
class HeldOut:
    """The data that accuracy is measured on.

    Attributes:
        samples: with their labels.
        label: the argument that holds class numbers.
    """

    samples: "Samples"
    label: "Argument"

    def accuracy(self, trainer: "Trainer", *, ema: bool) -> float:
        """The share of labels, but for ignored ones, whose class has the largest score.

        Args:
            trainer: with the model.
            ema: whether moving averages of the weights take their place.
        """
        held, name = self.samples.labels, self.label.spec.name
        labels, classes = held[name], cast("Classes", self.label.classes)
        scores = trainer.evaluate(self.samples.inputs, name if len(held) > 1 else None, ema=ema)
        right = scores.argmax(axis=classes.axis).reshape(labels.shape) == labels
        return float(right[labels != classes.ignored].mean())


def held_out(path: Path, manifest: "Manifest") -> HeldOut:
    """Samples of a file, and the label that accuracy is measured with.

    Raises:
        UsageError: there is no such label, or the output is evaluated for whole batches only.
        DataError: the samples cannot be read.
    """
    # Imported here: samples bring numpy.
    from odtc.cli.training.samples import read_samples

    label, found = _class_label(manifest), read_samples(path, manifest)
    named = [each for each in manifest.evaluations if each.output.name == label.spec.name]
    output = (*named, *manifest.evaluations)[0]
    if output.place is None and len(found) != manifest.micro_batch:
        raise UsageError(
            f"nothing shows where the samples lie in {output.output}: it is evaluated for whole "
            f"batches of {manifest.micro_batch}, and --eval-data holds {len(found)} samples",
            hint=f"leave it out, or compile with --batch-axis {output.output.name}=AXIS",
        )
    return HeldOut(found, label)


def _class_label(manifest: "Manifest") -> "Argument":
    """The label that accuracy is measured with: the first one of class numbers.

    Raises:
        UsageError: there is none.
    """
    label = next((item for item in manifest.labels if item.classes), None)
    if label is None:
        raise UsageError(
            f"--eval-data measures accuracy; the loss {manifest.loss} has no labels that are class "
            "numbers",
            hint="leave it out, or evaluate in Python",
        )
    return label
