"""The daemon as a service: what it and those who run it tell one another while it runs.

| | |
|---|---|
| `reload` | the configuration is read again, checked whole, and what can change takes effect |
"""
