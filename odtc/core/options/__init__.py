"""Arguments and options: their kinds, bounds and text forms."""
