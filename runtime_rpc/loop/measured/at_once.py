"""How many samples are evaluated at a time, where there are many."""

from collections.abc import Iterable

from odtc.core.artifact.manifest import Evaluation, Manifest

# A call of a trainer costs little beside so many samples. There are fewer where their outputs would
# take more bytes than this, as scores of many words do.
_PART, _PART_BYTES = 256, 64 << 20


def samples_at_once(manifest: Manifest, evaluated: Iterable[Evaluation]) -> int:
    """Samples that are evaluated by a call of a trainer: as many as fill micro-batches.

    Args:
        manifest: of the step.
        evaluated: the outputs that are held at a time.
    """
    batch = manifest.micro_batch
    held = sum(each.output.nbytes for each in evaluated)
    return batch * max(1, min(_PART // batch, _PART_BYTES // max(held, 1)))
