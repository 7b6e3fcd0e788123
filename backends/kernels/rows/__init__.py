"""Kernels that take a row at a time: `passes` over its elements, and what is made of them alone."""
