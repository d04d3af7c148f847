"""MQPUT: checked, completed, and placed on a queue."""
