"""Why the messages of a queue are not given to a get."""
