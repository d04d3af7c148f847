"""Delayed messages, in the order of their instants."""
