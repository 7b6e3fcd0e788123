"""Files of tests are shared by processes, and a test that ended one is not run again.

pytest-xdist gives another process all that was left, that test first: it would end that one, too.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class Once(LoadFileScheduling):
    """Shares files as `--dist loadfile` does."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Takes a process away; the test that it was at is over, and returned."""
        left = (
            (tests, name)
            for tests in self.assigned_work[node].values()
            for name, is_over in tests.items()
            if not is_over
        )
        tests, ended = next(left, ({}, None))
        if ended is not None:
            tests[ended] = True
        super().remove_node(node)
        return ended
