"""odtc-device: the server of a device's CPU, in C; it needs neither Python nor TVM there."""
