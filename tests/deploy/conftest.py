"""The command line, as the tests of `evermq` run it."""

from __future__ import annotations

from tests.cli.conftest import evermq

__all__ = ["evermq"]
