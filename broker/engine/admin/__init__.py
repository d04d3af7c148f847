"""Commands carried out, and what the status and backups show of a queue manager."""
