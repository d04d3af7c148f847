"""Commands for who runs a daemon as a service: its configuration and its reload."""
