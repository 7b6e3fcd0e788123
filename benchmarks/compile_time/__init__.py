"""What a compile takes: cold, again, and with an option changed; see `__main__`."""
