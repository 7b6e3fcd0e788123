"""Pipelines of passes: their text, the table of passes by name, and what prints between two."""
