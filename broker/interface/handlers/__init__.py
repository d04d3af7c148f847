"""Deliveries and trigger starts, as those see them who run handlers."""
