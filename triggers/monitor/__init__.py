"""The trigger monitor in its generations, and what it starts."""
