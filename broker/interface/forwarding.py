"""Forward the calls that a port does not make itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.interface.port import Call


class Forwarding:
    """The base of ports. Each method of a port that makes a call forwards it, unless a port overrides the method."""

    def forward(self, name: str, *values: Any) -> Call[Any]:
        """Make the call of this name elsewhere. Its arguments are in the order of its frame (`broker.wire.verbs`)."""
        raise NotImplementedError(name)
