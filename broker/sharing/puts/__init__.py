"""Puts to shared queues, delayed ones and those with keys."""
