"""Operators on whole sequences."""
