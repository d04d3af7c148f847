"""MQ's constants, by family."""
