"""The commands about messages of a queue."""
