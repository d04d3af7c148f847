"""The parts that are mounted at `[http] listen` beside probes and figures: the console, REST, and jobs.

They are imported where there is such an address: that of the probes has none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.http.application import CONSOLE, Mounted
from broker.http.console.console import Console
from broker.http.jobs import JOBS, JobsApplication
from broker.http.rest.administration.administration import AdministrationPart
from broker.http.rest.application import PATH, RestApplication
from broker.http.rest.messaging import MessagingPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.config import HttpConfig
    from broker.http.entrance import Entrance
    from broker.http.rest.calls import RestPart
    from broker.http.served_manager import ServedManager
    from broker.server.flow import BodyRoom

CONSOLE_BODY_BYTES: Final = 1024 * 1024
"""The longest form of the console: a letter that is changed and put back is one."""


class HttpParts:
    """The parts, `mounted` at their paths. `room` gives the room for a long body. At the end `console` ends before the
    lines, whose streams it holds, `messaging` behind them.
    """

    def __init__(
        self,
        served: ServedManager,
        entrance: Entrance,
        clock: Clock,
        start_soon: Callable[..., object],
        room: Callable[[], BodyRoom],
    ) -> None:
        self.console = Console(served, entrance, clock, start_soon)
        self.messaging = MessagingPart(clock, start_soon, room)
        parts: dict[str, RestPart] = {"messaging": self.messaging, "admin": AdministrationPart(served)}
        self.rest = rest = RestApplication(entrance, parts)
        self.mounted = (
            Mounted(CONSOLE, self.console, CONSOLE_BODY_BYTES),
            Mounted(PATH, rest, rest.body_bytes, for_pages=True),
            Mounted(JOBS, JobsApplication(entrance), for_pages=True),
        )

    def change(self, http: HttpConfig) -> None:
        """Answer by other settings of `[http]` from now on."""
        self.messaging.enabled = http.rest_messaging_enabled
        self.rest.csrf_validation = http.rest_csrf_validation
