"""The definitions of a group, and commands that the group carries out."""
