"""A message: its fields and states, its data in every form, and the messages that are made of it."""
