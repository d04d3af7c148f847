"""The desk with a listener: workers in processes of their own, as far as the queue manager can tell."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from broker import connect
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from tests.handlers.desk import TERMS, Desk, desk
from tests.server.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.interface.handlers.deliveries import Deliveries
    from broker.mqi.delivery_fields import ServiceOptions


class Remote(NamedTuple):
    """A desk, and a proxy in front of its listener that can cut lines."""

    desk: Desk
    proxy: Proxy

    @asynccontextmanager
    async def worker(
        self, terms: ServiceOptions = TERMS, queue: str = "Q"
    ) -> AsyncIterator[tuple[Connection, Deliveries]]:
        async with (
            connect(self.proxy.url, appl_name="worker", clock=self.desk.clock) as connection,
            connection.deliveries(queue, options=terms) as deliveries,
        ):
            yield connection, deliveries


@asynccontextmanager
async def remote(definitions: str = "", **limits: int) -> AsyncIterator[Remote]:
    """Queues Q, served under process P, DEAD and OUT, of a queue manager that listens."""
    async with (
        desk(definitions) as d,
        Server(d.manager, ListenerConfig(port=0), LimitsConfig(**limits)) as server,
        Proxy(server.addresses[0]) as proxy,
    ):
        yield Remote(d, proxy)


async def until_quiet(turns: int = 50) -> None:
    """Let the event loop turn until sockets have said what they have to say."""
    from asyncio import sleep

    for _ in range(turns):
        await sleep(0)
