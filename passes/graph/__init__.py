"""Rewrites of the graph, before operators are kernels."""
