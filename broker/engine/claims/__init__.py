"""Consumers, prepared units and sinks: their calls, and the jobs that change them."""
