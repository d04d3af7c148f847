"""Conversion of data to another character set and encoding (MQGMO_CONVERT)."""
