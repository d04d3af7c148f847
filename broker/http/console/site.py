"""The site: what all pages of the console share."""

from __future__ import annotations

from collections import OrderedDict
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from broker.http.console.browsing.cursors import BrowseCursors
from broker.http.console.figures.observatory import Observatory

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Clock
    from broker.http.console.admission import ConsoleAdmission
    from broker.http.console.page import Notice
    from broker.http.served_manager import ServedManager

NOTICES_MAX: Final = 500


class Site:
    """The console of a queue manager: `base` is its path, `admission` lets callers in."""

    def __init__(
        self,
        served: ServedManager,
        admission: ConsoleAdmission,
        clock: Clock,
        start_soon: Callable[..., object],
        base: str = "/console",
    ) -> None:
        self.base = base
        self.admission = admission
        self.clock = clock
        self.served = served
        self.start_soon = start_soon
        self.observatory = Observatory(served, clock, start_soon)
        self.cursors = BrowseCursors(clock, start_soon)
        self.q_mgr_name = ""  # until it is known
        self._notices: OrderedDict[str, tuple[str, Notice]] = OrderedDict()

    def leave_notice(self, user: str, notice: Notice) -> str:
        """Keep a notice for the next page of a user; the word by which it is asked for."""
        word = token_urlsafe(9)
        self._notices[word] = user, notice
        if len(self._notices) > NOTICES_MAX:
            self._notices.popitem(last=False)
        return word

    def notice(self, user: str, word: str) -> Notice | None:
        """Return the notice of a user by its word. It is told once: a page that is loaded again is as it is."""
        kept = self._notices.get(word)
        if kept is None or kept[0] != user:
            return None
        return self._notices.pop(word)[1]

    def end(self) -> None:
        """End the streams and the cursors of all pages."""
        self.observatory.end()
        self.cursors.end()
