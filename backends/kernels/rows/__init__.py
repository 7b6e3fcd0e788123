"""Kernels that take a row at a time: `passes` over its elements, and kernels made of passes."""
