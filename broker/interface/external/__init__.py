"""Units of work that a database of the program's own decides."""
