"""Consumers and sinks, as programs see them."""
