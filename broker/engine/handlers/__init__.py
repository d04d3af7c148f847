"""Messages for handlers: trigger starts and deliveries, handed out and taken back."""
