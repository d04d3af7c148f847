"""A visit: one request of somebody who was let in, and what pages ask of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from broker.http.console.elements import relative
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request

    from broker import Connection
    from broker.http.console.admission import ConsoleCaller
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.site import Site

ROLES_THAT_ACT: Final = frozenset({"MQWebAdmin", "MQWebUser"})


class Visit:
    """A request of a caller. All that it asks of the queue manager is judged as the caller's."""

    def __init__(self, request: Request, caller: ConsoleCaller, site: Site) -> None:
        self.request = request
        self.caller = caller
        self.site = site
        self._missing: dict[tuple[str, str], str] = {}

    @property
    def now(self) -> float:
        """The time, in seconds since 1970."""
        return self.site.clock.time()

    @property
    def streams(self) -> bool:
        """True if the page's stream asks, and not who has opened it."""
        return "live" in self.request.query_params

    def age(self, at: float, now: float) -> str:
        """Return how long ago an instant was. For a stream in whole minutes: the script tells the seconds itself, so
        that no row has to be sent each second.
        """
        return relative(-60.0 * round((now - at) // 60)) if self.streams and now > at else relative(at - now)

    @property
    def base(self) -> str:
        """The path of the console."""
        return self.site.base

    @cached_property
    def here(self) -> str:
        """The path and the query of this page, by which its forms come back to it."""
        path = f"{self.base}{self.request.scope['path']}"
        left = [
            (name, value) for name, value in self.request.query_params.multi_items() if name not in ("said", "live")
        ]
        return f"{path}?{urlencode(left)}" if left else path

    @property
    def form_token(self) -> str:
        """The word that each form of this caller's has to say, and nobody else knows."""
        return self.caller.form_token

    def url(self, *segments: str, **query: Any) -> str:
        """The path of another page of the console; its segments are any texts."""
        path = "/".join((self.base, *(quote(each, safe="") for each in segments)))
        left = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(left)}" if left else path

    def param(self, name: str) -> str:
        """Return a part of the path."""
        value: str = self.request.path_params[name]
        return value

    def query(self, name: str, default: str = "") -> str:
        """Return what the query says by this name."""
        return self.request.query_params.get(name, default)

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection of the caller's, for this request alone. No handle may be left open on it."""
        return self.caller.connection()

    async def look(self) -> StatusLook:
        """The figures of the queue manager, as far as the caller may display them. Raises MQError where there are
        none.
        """
        return await self.site.observatory.look(self.caller)

    @property
    def acts(self) -> bool:
        """False for who may look and nothing else (MQWebAdminRO)."""
        return not ROLES_THAT_ACT.isdisjoint(self.caller.roles)

    async def missing(self, name: str, rights: str) -> str:
        """Return what the caller lacks to open or change object `name` for these rights, as `get on ORDERS`; empty
        where it has them. The words are those of `Connection.explain_open`.
        """
        if not self.acts:
            return "role MQWebAdmin or MQWebUser"
        key = (name, rights)
        if key not in self._missing:
            self._missing[key] = "" if await self._allowed(name, rights) else f"{rights} on {name}"
        return self._missing[key]

    async def _allowed(self, name: str, rights: str) -> bool:
        try:
            async with self.connection() as connection:
                return (await connection.explain_open(name, for_=rights)).allowed
        except MQError as error:
            if error.reason in (MQRC.NOT_AUTHORIZED, MQRC.UNKNOWN_OBJECT_NAME):
                return error.reason == MQRC.UNKNOWN_OBJECT_NAME  # the action itself says that it is not there
            raise
