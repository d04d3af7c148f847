"""A shelf: the messages that can be found, and the indexes by which they are."""
