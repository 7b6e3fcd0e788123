"""Makes the repository the root that `tests` and `benchmarks` are imported from."""

import os
import signal
import tempfile
from pathlib import Path

from hypothesis import settings

# In CI hypothesis would draw the same examples each time.
settings.load_profile("default")
# A shell lets its jobs in the background ignore interrupts, which tests send to their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What the user of this machine has tuned is no part of a test.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir(), "none-of-the-users-own"))
