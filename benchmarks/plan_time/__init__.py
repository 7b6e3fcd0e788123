"""What it takes to plan: `odtc plan`, by its stages; see `__main__`."""
