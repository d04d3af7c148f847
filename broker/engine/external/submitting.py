"""What is prepared, or decided, together goes to the journal in one submission (transactions rules 2.2 and 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from broker.core.message.rows import Rows
from broker.engine.mistakes import contained

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.engine.context import EngineContext


class OwnRows(Protocol):
    """One of those that are submitted together."""

    @property
    def rows(self) -> Rows:
        """What is to be written for it."""


T = TypeVar("T", bound=OwnRows)


def submit(context: EngineContext, together: Sequence[T], written: Callable[[T, Exception | None], None]) -> None:
    """Submit the rows of them. `written` is called for each when these are durable, or could not be made so; at once
    where there are none.
    """
    rows = Rows()
    for each in together:
        rows.extend(each.rows)

    def settled(error: Exception | None) -> None:
        for each in together:
            contained(written, each, error)
        context.perform()
        context.deliveries.run()

    if rows:
        context.journal.submit(rows, settled)
    else:
        settled(None)
