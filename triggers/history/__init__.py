"""The history of queues, as programs read it: the results of their messages."""
