"""`prepare`: from an ONNX file to the training graph of a step for whole batches.

read -> draft -> differentiate
"""

import os

from odtc.backends.targets import Target
from odtc.core.process.progress import Progress
from odtc.driver.drafts.drafting import draft_of
from odtc.driver.drafts.lengths import at_lengths
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.training import Step, differentiate


def prepare(
    model: str | os.PathLike[str], target: Target, options: StepOptions, progress: Progress
) -> Step:
    """Makes the training graph of a model for whole batches.

    See `odtc.compile` for arguments and errors.
    """
    source, *_ = at_lengths(read_source(model, target, options, progress))
    return differentiate(draft_of(source), progress)
