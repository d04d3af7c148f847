"""Prepared units: messages that have been put durably under a name, and wait for the decision to publish them."""
