"""What a step makes of samples without labels: read, evaluated in parts, and written."""
