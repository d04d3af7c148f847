"""The adapters, a module for each driver or library, imported when an object of it is given."""
