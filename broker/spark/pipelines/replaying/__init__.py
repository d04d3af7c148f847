"""A replay: its choice of messages, its writes, and its ledger."""
