"""Convolutions in groups on a GPU, in strips of columns."""
