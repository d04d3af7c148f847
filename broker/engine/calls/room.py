"""The room that a connection has for its calls and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


class Room:
    """Room without bounds, for programs in the process of the queue manager. A session has another.

    `frame_bytes` is the longest answer that may be made of many messages.
    """

    frame_bytes = 1 << 31
    handling = False
    """Calls have come on the line that are made in slices: some of them in each of the next turns of the event loop."""

    @property
    def congested(self) -> bool:
        """True if calls that are deferred stay so, until some answers have gone."""
        return False

    def got(self, size: int) -> None:
        """A call has got messages of so many bytes, which its answer is to hold (`Call.held`)."""

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when the room is no longer congested."""
        raise NotImplementedError


BOUNDLESS: Final = Room()
