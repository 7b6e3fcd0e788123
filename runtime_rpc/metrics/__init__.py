"""The state of a device while it computes: samples of it, and figures derived from them."""
