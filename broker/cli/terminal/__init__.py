"""The terminal: text that commands read from it, and write to it."""
