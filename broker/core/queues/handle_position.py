"""The position of a handle: what its calls leave behind for its next ones.

A position is a value. A put, get or browse makes the next one from it and gives it to the handle in one assignment,
when nothing can fail any more: so a call that fails leaves the position as it was, but for a BROWSE_FIRST whose message
was too long, which rewinds it (semantics 5.4). Where nothing moves, as with messages that are in no group, nothing is
assigned.

What was done can be undone later, each time in one assignment too:

- a unit of work that is backed out, or could not be written, takes back the moves of `last_put` and `last_get` that it
  made itself (`Unit.restore`);
- a get whose answer nobody took gives `last_get` back to where it stood, unless a later get has moved it on
  (`Move.undo`);
- of messages got ahead and given back, `last_get` goes back to the last one that was kept (`granting.step_back`).

The rest says what a program has seen: neither the browse nor the saved context is ever taken back. The lock ends as
`broker.core.queues.locking` tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.logical_order import CLOSED, Position
from broker.core.queues.shelf.views import START

if TYPE_CHECKING:
    from broker.core.message.context import Context
    from broker.core.message.entry import Entry


class HandlePosition(NamedTuple):
    """The position of a handle among the messages of its queue."""

    last_put: Position = CLOSED
    last_get: Position = CLOSED
    last_browse: Position = CLOSED
    cursor: int = START  # the key of the message browsed last (semantics 8)
    anchor: int = START  # in a browse in logical order, the key of the first message of the last group
    browsed_logically: bool | None = None  # by the last browse; None before the first
    saved_context: Context | None = None  # of the last message got; None after a browse
    locked: tuple[Entry, ...] = ()  # browsed with LOCK

    def after_browse(
        self, last_browse: Position, cursor: int, anchor: int, locked: tuple[Entry, ...], *, logical: bool
    ) -> HandlePosition:
        """The position after a browse, which leaves no context to pass on."""
        return HandlePosition(self.last_put, self.last_get, last_browse, cursor, anchor, logical, None, locked)

    def rewound(self) -> HandlePosition:
        """The position before the first message to browse: nothing is open, and either order may follow."""
        return self._replace(last_browse=CLOSED, cursor=START, anchor=START, browsed_logically=None)


AT_REST = HandlePosition()
