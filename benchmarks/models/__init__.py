"""Models and data sets that need no download."""
