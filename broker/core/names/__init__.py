"""Names: the definitions of objects, and where a name that is opened leads."""
