"""The questions of administrators to the queue manager, as parts of a connection."""
