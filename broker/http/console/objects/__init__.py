"""Definitions and commands, for the console: by the one table of attributes.

attributes  attributes in groups, as fields of a form, and the ALTER line that a form comes to
completion  what can follow in a command that somebody types
sessions    the commands of a session and what came of them
"""
