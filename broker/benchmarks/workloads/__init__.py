"""The workloads: what users have done to a queue manager."""
