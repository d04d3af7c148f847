"""What happens to a queue, counted from the start of the queue manager on: the counts never fall."""
