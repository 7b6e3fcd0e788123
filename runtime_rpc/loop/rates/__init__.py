"""Which learning rate a step may take: the range test, and the curve that it gives."""
