"""Units of work that a database of a program's own decides. Nothing of it is loaded before there is one."""
