"""Both event loops, for the daemon as a service."""

from __future__ import annotations

from tests.server.conftest import anyio_backend
from tests.server.security.conftest import files

__all__ = ["anyio_backend", "files"]
