"""Rewrites of the gradients of tables of which a step reads some rows."""
