"""A setting: one key of a section, with all that is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from broker.config.kinds import Kind

KIB: Final = 1024
MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
YEAR: Final = 365 * 86_400.0


class Setting(NamedTuple):
    """One key of a section, with everything that a reader of the documentation asks."""

    key: str
    default: object
    kind: Kind
    help: str
    unit: str
    live: bool
    """True if a new value takes effect while the daemon runs (`evermq reload`); any other waits for the next start."""


def about(kind: Kind, help: str, unit: str = "", *, live: bool = False) -> dict[str, Any]:
    """Return the metadata of a section's field: the kind of its value, its help, its unit if it has one, and whether it
    can change while the daemon runs.
    """
    return {"kind": kind, "help": help, "unit": unit, "live": live}


def live(kind: Kind, help: str, unit: str = "") -> dict[str, Any]:
    """Return the metadata of a field that can change while the daemon runs."""
    return about(kind, help, unit, live=True)
