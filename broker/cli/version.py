"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def evermq_version() -> str:
    """The version as the installer knows it; sources that were never installed have none."""
    try:
        return version("evermq")
    except PackageNotFoundError:
        return "(not installed)"
