"""What a run needs of a trainer."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from odtc.core.artifact.manifest import Features, Manifest, StepPlan
from odtc.runtime_rpc.loop.history import History
from odtc.runtime_rpc.sessions.session import Session


class Trained(Protocol):
    """A trainer, as a run sees it: `odtc.runtime_rpc.trainer.Trainer`.

    Attributes:
        steps: number of steps taken, checkpoints included.
        progress: of a run, as text; checkpoints keep it.
        history: of the last run.
        session: where steps run.
    """

    steps: int
    progress: str
    history: History
    session: Session

    @property
    def active_adapter(self) -> str: ...  # noqa: D102
    @property
    def manifest(self) -> Manifest: ...  # noqa: D102
    @property
    def plan(self) -> StepPlan: ...  # noqa: D102
    @property
    def length(self) -> int: ...  # noqa: D102
    @property
    def label_weight(self) -> float: ...  # noqa: D102
    @property
    def updates(self) -> int: ...  # noqa: D102
    @property
    def skipped(self) -> int: ...  # noqa: D102
    @property
    def frozen_writes(self) -> int | None: ...  # noqa: D102

    def can_fill_rows(self) -> bool: ...  # noqa: D102

    def features(  # noqa: D102
        self, of: Features, x: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]: ...

    def train(  # noqa: D102
        self, batches: Iterable[Any], lr: Callable[[int], float], steps_per_call: int = 1
    ) -> Iterator[float]: ...

    def _evaluated(self, x: Any, output: str | None, *, ema: bool) -> np.ndarray: ...

    def parameters(self, *, ema: bool = False) -> dict[str, np.ndarray]: ...  # noqa: D102
    def save_checkpoint(self, path: str | os.PathLike[str]) -> None: ...  # noqa: D102
    def load_checkpoint(self, path: str | os.PathLike[str]) -> None: ...  # noqa: D102
    def _go_on(self, path: str | os.PathLike[str]) -> None: ...
    def _check_kept(self, path: str | os.PathLike[str]) -> None: ...
    def _others_replaced(self, path: str | os.PathLike[str], keeps: str) -> str: ...
