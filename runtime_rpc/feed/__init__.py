"""What callers feed a step: checked, converted and sent."""
