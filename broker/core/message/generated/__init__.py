"""Messages that the queue manager makes itself: reports, dead letters, trigger messages."""
