"""`Draft`: what there is of a step before gradients.

It is cheap enough to be made for several batches, to compare them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from odtc.core.adapters import Adapter
from odtc.driver.drafts.source import Source
from odtc.frontend.coverage import NodeReport, check_graph
from odtc.frontend.graph import Graph, samples_of
from odtc.frontend.losses.objective import Objective
from odtc.frontend.trained.selection import Selection


@dataclass(frozen=True)
class Draft:
    """A step before it has gradients.

    Attributes:
        source: what it is made from.
        graph: of the model; normalised once `complete` has been through.
        objective: the losses on its outputs.
        selection: what is trained.
        adapters: that were added.
        micro_batches: how many of them the step takes; the graph is of one of them.
    """

    source: Source
    graph: Graph
    objective: Objective
    selection: Selection
    adapters: tuple[Adapter, ...]
    micro_batches: int

    @property
    def batch(self) -> int:
        """Samples in a step."""
        return samples_of(self.graph) * self.micro_batches

    @cached_property
    def reports(self) -> Sequence[NodeReport]:
        """Reports on each node of the model: asked before the graph is normalised."""
        return check_graph(self.graph, self.selection.trained)
