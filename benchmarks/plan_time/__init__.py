"""Time of `odtc plan`, by its stages; see `__main__`."""
