"""Reading rows by their number, the gradient of that, and updates of the rows that were read."""
