"""The journal, and what becomes durable by it: units, bodies, and the messages of the last life."""
