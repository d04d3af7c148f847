"""The calls of a connection: in their order, to their answers."""
