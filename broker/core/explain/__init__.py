"""Explain which messages of a queue are not given to a get, and why."""
