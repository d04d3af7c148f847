"""Consumers, sinks and prepared units of shared queues."""
