"""Periodic work: intervals, crontabs, and their schedules on a queue."""
