"""Compiled steps that are kept: the same model with the same options is not compiled again."""
