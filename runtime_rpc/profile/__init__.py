"""Where the time of training steps goes, by operator, beside what the device feels."""
