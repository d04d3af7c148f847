"""Messages of shared queues for handlers: deliveries and trigger events."""
