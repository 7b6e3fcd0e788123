"""What a device feels while it computes: samples of it, and the figures that follow from them."""
