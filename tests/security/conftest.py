"""Both event loops, where sockets are concerned."""

from tests.server.conftest import anyio_backend

__all__ = ["anyio_backend"]
