"""What odtc is measured and checked with: models, data, and the runs that use them."""
