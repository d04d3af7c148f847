"""MQGET: which message it is given, and how."""
