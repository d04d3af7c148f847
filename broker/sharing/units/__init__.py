"""Units of work with shared queues, and how they ended."""
