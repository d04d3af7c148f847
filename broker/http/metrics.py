"""/metrics: the figures of the queue manager and of the process, one scrape at a time (operations 3)."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import anyio
import anyio.lowlevel
from starlette.responses import PlainTextResponse, StreamingResponse

from broker import MQError
from broker.http.entrance import NotAdmittedError
from broker.http.exposition import END_OF_OPEN_METRICS, OPEN_METRICS, PLAIN, accepts, open_metrics, pieces
from broker.http.process_figures import ProcessFigures
from broker.http.refusals import refusal, unauthorized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.responses import Response

    from broker import Clock, Connection
    from broker.http.entrance import Entrance
    from broker.http.served_manager import ServedManager

    Connecting: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]
    """Makes a connection for a scrape, where one is taken."""

FRESH_SECONDS: Final = 1.0
"""For so long a text is given to whoever asks the same."""

BAD_REQUEST: Final = 400


class AskedScrape(NamedTuple):
    """The figures asked for, and who asks: the user, empty where everybody is given the same."""

    queue: str = "*"
    per: str = "queue"
    names: str = "evermq"
    caller: str = ""


PARAMETERS: Final = ("queue", "per", "names")


class MistakenParametersError(Exception):
    """The parameters of a request are none; the text says which there are."""


class Scrapes:
    """The scrapes of a queue manager: one at a time, whoever asks, and with at most `queues_max` queues."""

    def __init__(self, served: ServedManager, clock: Clock, queues_max: int) -> None:
        self.served = served
        self._clock = clock
        self.queues_max = queues_max
        self._process = ProcessFigures()
        self._one = anyio.Lock()
        self._texts: dict[AskedScrape, tuple[str, str]] = {}

    async def texts(self, asked: AskedScrape, connecting: Connecting) -> tuple[str, str]:
        """Return the text of this moment about the queue manager, and that about the process, or those that somebody
        has been given within a second: to join them would be a step of milliseconds. Raises MQError.
        """
        async with self._one:
            texts = self._texts.get(asked)
            if texts is None:
                async with connecting() as connection:
                    taken = await connection.figures(
                        queue=asked.queue, per=asked.per, names=asked.names, queues_max=self.queues_max
                    )
                self._texts[asked] = texts = taken, self._process.text()
                self._clock.call_later(FRESH_SECONDS, partial(self._forget, asked))
        return texts

    def _forget(self, asked: AskedScrape) -> None:
        self._texts.pop(asked, None)


class Metrics:
    """The figures as they are shown at one address. With `need_users` they are those that the caller may display."""

    def __init__(self, scrapes: Scrapes, entrance: Entrance, *, need_users: bool) -> None:
        self._scrapes = scrapes
        self._entrance = entrance
        self._need_users = need_users

    async def get(self, request: Request) -> Response:
        """/metrics: 400 for parameters that are none, 401 without a user, 403 for one who may not display it."""
        try:
            texts = await self._asked(request)
        except MistakenParametersError as error:
            return PlainTextResponse(f"{error}\n", BAD_REQUEST)
        except NotAdmittedError:
            return unauthorized()
        except MQError as error:
            return refusal(error)
        opened = accepts(request.headers.get("accept", ""), "application/openmetrics-text")
        return StreamingResponse(_lines(texts, opened=opened), media_type=OPEN_METRICS if opened else PLAIN)

    async def _asked(self, request: Request) -> tuple[str, str]:
        asked, served = _parameters(request), self._scrapes.served
        if not self._need_users:
            return await self._scrapes.texts(asked, served.as_server)
        caller = await self._entrance.admit(request)
        async with caller.connection() as connection:
            own = asked._replace(caller=caller.user)
            return await self._scrapes.texts(own, lambda: nullcontext(connection))


def _parameters(request: Request) -> AskedScrape:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in PARAMETERS or name in given:
            what = "is given twice" if name in given else "is no parameter"
            raise MistakenParametersError(f"{name!r} {what}; there are {', '.join(PARAMETERS)}, each once")
        given[name] = value
    return AskedScrape(given.get("queue", "*"), given.get("per", "queue"), given.get("names", "evermq"))


async def _lines(texts: Iterable[str], *, opened: bool) -> AsyncIterator[str]:
    """The texts in pieces, each in a turn of the event loop: a socket of this machine takes many at once."""
    for piece in chain.from_iterable(map(pieces, texts)):
        yield open_metrics(piece) if opened else piece
        await anyio.lowlevel.checkpoint()
    if opened:
        yield END_OF_OPEN_METRICS
