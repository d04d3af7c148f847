"""The commands about a queue manager, its data and its group."""
