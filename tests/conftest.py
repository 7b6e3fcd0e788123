"""Makes the repository the root that `tests` and `benchmarks` are imported from."""

from hypothesis import settings

# In CI hypothesis would draw the same examples each time.
settings.load_profile("default")
