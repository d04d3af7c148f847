"""Deliveries: messages that are handed to handlers with their trigger starts, and what becomes of them."""
