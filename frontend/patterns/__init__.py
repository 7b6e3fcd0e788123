"""Functions that exports spell out in several operators, found and put together again."""
