"""The database of a group: its schema, sessions and transactions, rows and notifications."""
