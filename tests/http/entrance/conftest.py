"""A queue manager with users behind an HTTP server, in its process and in one of its own."""

from tests.http.door import anyio_backend, door

__all__ = ["anyio_backend", "door"]
