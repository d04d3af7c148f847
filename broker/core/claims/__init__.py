"""Claims: messages that a durable consumer has, outside any unit of work, until it acknowledges them."""
