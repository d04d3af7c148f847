"""Lines under load while the certificates of the listener change, some of them for bad ones (X3.1 writ large): no line
is lost, no message is lost or doubled, and who comes is shown what is new. `python -m tests.server.security.reloads`.

run    the daemon, the certificates and those who come
lines  the lines under load, in processes of their own
"""
