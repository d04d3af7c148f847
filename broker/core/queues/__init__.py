"""A queue: what is on it, how that is found, who has it open, who waits, and the units of work that change it."""
