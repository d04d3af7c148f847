"""The table of attributes: every kind of object, what it has, and its default object."""
