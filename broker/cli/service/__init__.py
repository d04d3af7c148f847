"""Commands for who runs a daemon as a service: its configuration, its reload, its unit of systemd."""
