"""Changes that exporters make to weights, and the metadata that they write."""
