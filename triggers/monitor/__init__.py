"""The trigger monitor in its generations, and the monitor of an initiation queue."""
