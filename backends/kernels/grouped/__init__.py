"""Convolutions in groups: each a product, or depthwise, where a group is a single channel."""
