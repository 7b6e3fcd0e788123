"""What arrays of samples are taken as, and what is said of them."""
