"""Operands of products on a GPU that are kept as codes."""
