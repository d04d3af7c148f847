"""The monitor of an initiation queue, and what its trigger messages name."""
