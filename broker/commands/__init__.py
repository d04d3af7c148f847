"""MQSC and ZMQSC: text to command to reply. Pure: what a command changes is returned as values, never done here."""
