"""`odtc train` and its parts."""
