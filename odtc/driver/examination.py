"""`examine`: whether a model can be trained, and which nodes stand in the way.

It takes the way of a compile up to the training graph, so that both refuse the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odtc.backends.targets import Target
from odtc.core.options.arguments import read_argument
from odtc.core.process.progress import silent
from odtc.core.specs import TensorSpec
from odtc.driver.drafts.drafting import complete, sketch_of
from odtc.driver.drafts.lengths import at_lengths
from odtc.driver.drafts.source import read_source
from odtc.driver.options.kinds import MODEL
from odtc.driver.options.option import checked
from odtc.driver.options.step_options import StepOptions
from odtc.driver.parts import Parts
from odtc.driver.training import try_to_differentiate
from odtc.frontend.coverage import NodeReport
from odtc.frontend.feeds import lacks_batch
from odtc.frontend.weights.finding import Finding

_WHERE = "odtc.compile"


@dataclass(frozen=True)
class Report:
    """The result of `odtc check`.

    Attributes:
        model: path of the ONNX file.
        nodes: what can be done with each node, in order.
        parameters: what is trained.
        notes: what was assumed.
        findings: what each float tensor of the file is.
    """

    model: str
    nodes: Sequence[NodeReport]
    parameters: Sequence[TensorSpec]
    notes: Sequence[str]
    findings: Mapping[str, Finding]

    @property
    def trainable(self) -> bool:
        """Whether no node keeps the model from being trained."""
        return not any(node.blocks for node in self.nodes)


def examine(path: str, target: Target, options: StepOptions) -> Report:
    """Does what `odtc.compile` does, up to the training graph.

    Args:
        path: of the ONNX file.
        target: what would be compiled for.
        options: of the step; a symbolic batch that has no size is taken as 1, or as the largest
            number of samples that is to be evaluated.

    Raises:
        OdtcError: as of `odtc.compile`, but where nodes cannot be trained: those are in the report.
    """
    # Whoever compiles is told the same.
    path, options = read_argument(MODEL, path, "model", _WHERE), checked(options, _WHERE)
    source, *_ = at_lengths(read_source(path, target, options, silent))
    options = source.options
    if lacks_batch(source.model, source.asked):
        least = max([1, *options.evaluated])
        source = replace(source, options=replace(options, batch=least))
    sketch = sketch_of(source)
    graph = sketch.graph
    nodes = sketch.reports
    parameters = [spec for spec in graph.parameter_specs() if spec.name in sketch.selection.trained]
    if not any(node.blocks for node in nodes):
        parts = Parts(source, complete(sketch))
        draft = parts.draft(parts.fewest)
        try_to_differentiate(draft)
        graph = draft.graph
    return Report(path, nodes, parameters, graph.notes, graph.findings)
