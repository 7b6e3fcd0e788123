"""What a module's forward does that a file might not."""
