"""Makes the repository the root that `tests` and `benchmarks` are imported from."""
