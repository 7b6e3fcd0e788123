"""What exporters do to weights, and what they write of them."""
