"""MQSC and ZMQSC: from text to requests."""
