"""What a step on a GPU is fed, the next batch while one is computed."""

from collections.abc import Callable

from odtc.runtime_rpc.feed.batches import Fed
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.on_gpu import OnGpu


class Ahead:
    """Feeds a trainer in the native runtime, whose tensors are on a GPU.

    Args:
        native: the trainer.
        write: of a batch to the memory of the step's inputs and labels.
        send: gives the device a batch for the next step, by way of that memory or not.

    Attributes:
        on_gpu: the trainer's other functions.
    """

    def __init__(
        self, native: NativeTrainer, write: Callable[[Fed], None], send: Callable[[Fed], None]
    ) -> None:
        self.on_gpu = OnGpu(native, self._send_next)
        self._write, self._send = write, send
        self._following: Callable[[], Fed | None] | None = None
        self._sent: Fed | None = None
        self._raised: BaseException | None = None

    def feed(self, fed: Fed, following: Callable[[], Fed | None]) -> None:
        """Writes a batch, unless it was sent ahead; the step after it asks what follows."""
        if fed is not self._sent:
            self.forget()
            self._write(fed)
        self._sent, self._following = None, following

    def forget(self) -> None:
        """Something else is written to inputs: what was sent ahead is written again."""
        self._sent = None
        self.on_gpu.drop_next()

    def after_step(self) -> None:
        """Raises what asking for the next batch raised: through C nothing can be."""
        self._following = None
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _send_next(self) -> None:
        try:
            following = self._following() if self._following else None
            if following is not None:
                self._send(following)
                self._sent = following
        except BaseException as error:  # an interrupt, too
            self._raised = error
