"""The state of the queue manager in figures: for programs that look, and for those that scrape it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.interface.port import answer
from broker.interface.users import AccessQuestions

if TYPE_CHECKING:
    from broker.interface.port import Port

QUEUES_MAX: Final = 2000
"""Of so many queues a scrape has series of their own, unless it says more."""


class StatusQuestions(AccessQuestions):
    """A part of `Connection`: the queue manager in figures, as far as the user may display it, and who may do what."""

    port: Port

    async def status(self) -> dict[str, Any]:
        """The state of the queue manager in figures: queues, connections, journal, triggers."""
        return await answer(self.port.status())

    async def figures(
        self, queue: str = "*", per: str = "queue", names: str = "evermq", queues_max: int = QUEUES_MAX
    ) -> str:
        """Return the figures of the queue manager as text for Prometheus (exposition format 0.0.4).

        `queue` is the name of a queue, or a generic one: `ORDERS.*`. The default is all queues but temporary dynamic
        ones and `SYSTEM.*`. With `per="none"` no queue has series of its own, else at most `queues_max` have, in the
        order of their names: `evermq_queues_left_out` tells how many have not. `names="ibmmq"` gives the names that
        IBM's exporter has, for its dashboards.

        Raises NOT_AUTHORIZED (2035) without DSP on the queue manager, OBJECT_NAME_ERROR (2152) for what is no name of
        a queue, OPTIONS_ERROR (2046) for other values.
        """
        return await answer(self.port.figures(queue, per, names, queues_max))

    async def recent_log(self) -> list[str]:
        """Return the last lines of the queue manager's log, as many as its daemon keeps in memory (`[logging] recent`);
        none where the queue manager is embedded. Raises NOT_AUTHORIZED (2035) unless an administrator asks.
        """
        piece = await answer(self.port.recent_log(0))
        lines, end = piece.lines, piece.end
        while piece.lines and piece.last < end:  # what is logged meanwhile does not count
            piece = await answer(self.port.recent_log(piece.last))
            lines += piece.lines
        return lines
