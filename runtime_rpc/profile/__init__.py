"""Where the time of training steps goes, by operator, beside the state of the device."""
