"""Makes the repository the root that `tests` and `benchmarks` are imported from."""

import signal

from hypothesis import settings

# In CI hypothesis would draw the same examples each time.
settings.load_profile("default")
# A shell lets its jobs in the background ignore interrupts, which tests send to their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
