"""The daemon as a service: what it and those who run it tell one another while it runs.

| | |
|---|---|
| `activation` | listening sockets that the service manager has opened for it |
| `notices` | when the daemon is ready, alive, reloading and stopping, for systemd |
| `notify_socket` | the socket to which notices go |
| `reload` | the configuration is read again, checked whole, and what can change takes effect |
"""
