"""Times of calls: measured, or by a model of the machine."""
