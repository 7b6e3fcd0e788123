"""The state of a device while it computes: samples of it, and the figures that follow from them."""
