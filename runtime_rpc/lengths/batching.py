"""Samples in arrays whose rows differ in how many places count: batches of one length each."""

from collections.abc import Callable
from dataclasses import replace

from odtc.core.artifact.manifest import Manifest
from odtc.runtime_rpc.data.by_length import note_of_lengths
from odtc.runtime_rpc.data.samples import Samples
from odtc.runtime_rpc.lengths.rows import Rows


def batched_by_length(
    samples: Samples, manifest: Manifest, can_fill: Callable[[], bool]
) -> Samples:
    """Samples that are trained, in an order in which a batch is not as long as one row of it.

    Args:
        samples: in arrays, whose rows are filled up to one length.
        manifest: of the step.
        can_fill: whether a step may take rows at a shorter length than they have.
    """
    if not manifest.shorter or not (rows := Rows(manifest)).can_fill or not can_fill():
        return samples
    lengths = rows.lengths_of({**samples.inputs, **samples.labels})
    note = "" if lengths is None else note_of_lengths(samples.where, lengths)
    if not note:
        return samples
    notes = (*samples.notes, note)
    return replace(samples, lengths=lengths, batch=manifest.batch, notes=notes)
