"""The tests of the App layer run on both event loops."""

from tests.handlers.loops import anyio_backend

__all__ = ["anyio_backend"]
