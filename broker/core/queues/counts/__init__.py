"""The counts of what happens to a queue, from the start of the queue manager on: the counts never fall."""
