"""Parts of a step that run some rows at a time."""
