"""Benchmarks and checks of odtc: models, data, and the runs that use them."""
