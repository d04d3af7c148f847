"""Serving handlers: deliveries taken, run, and settled."""
