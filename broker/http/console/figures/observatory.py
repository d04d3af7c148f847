"""The observatory: one look a second at the status, for all pages that are open, while somebody looks.

1. It begins with the first request and ends fifteen minutes after the last: a console that nobody opens costs nothing.
2. It looks by the server's own connection. What a caller may display is asked as the caller, ten seconds long.
3. A look that takes long is followed by a pause twenty times as long, of a second at least and five at most.
4. All callers who may see the same share one look, and what pages make of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.http.console.figures.lately import Lately
from broker.http.console.figures.look import StatusLook
from broker.http.console.figures.series import SeriesByQueue
from broker.http.console.troubles import told_by
from broker.mqi import MQRC, MQError
from broker.presentation.rates import Observation, Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker import Clock, Connection
    from broker.http.console.admission import ConsoleCaller
    from broker.http.served_manager import ServedManager

LOOK_SECONDS: Final = 1.0
KEPT_SECONDS: Final = 900.0
"""The time that it looks on after the last request."""

ALLOWED_SECONDS: Final = 10.0
"""The time for which the names that a user may display are remembered."""

USERS_MAX: Final = 1000
_PAUSE: Final = 20
_PAUSE_MAX: Final = 5.0
_THERE: Final = 1e-6
"""The traffic of a queue that holds messages, where there is none."""

_STEP: Final = 50
"""So many queues are worked on before others have a turn."""


class Observatory:
    """The figures of a queue manager as they are this second, and as they were."""

    def __init__(self, served: ServedManager, clock: Clock, start_soon: Callable[..., object]) -> None:
        self.series = SeriesByQueue()
        self.lately = Lately()
        self.ended = False
        self._served = served
        self._clock = clock
        self._start_soon = start_soon
        self._asked = -math.inf
        self._scope: anyio.CancelScope | None = None  # while it looks
        self._observation: Observation | None = None
        self._rates: Rates | None = None
        self._at = 0.0
        self._number = 0
        self._oldest: dict[str, float] = {}
        self._flows: dict[str, tuple[float, float]] = {}
        self._failing: Mapping[str, str] = {}
        self._error: MQError | None = None
        self._looked = anyio.Event()
        self._turn = anyio.Lock()
        self._looks: dict[str, StatusLook] = {}  # the last one of each user, "" for administrators
        self._allowed: dict[str, tuple[float, frozenset[str]]] = {}

    @property
    def number(self) -> int:
        """The number of looks up to now, those that failed among them."""
        return self._number

    async def look(self, caller: ConsoleCaller) -> StatusLook:
        """Return the last look, as far as a caller may see it. Raises NOT_AUTHORIZED (2035) without DSP on the queue
        manager, and what else keeps figures from it.
        """
        await self._wake()
        if self._error is not None or self._rates is None:
            raise self._error or MQError(MQRC.Q_MGR_NOT_AVAILABLE, "the console ends")
        allowed = await self._allowed_of(caller)
        key = "" if allowed is None else caller.user
        look = self._looks.get(key)
        if look is None or look.number != self._number:
            look = self._looks[key] = self._seen(self._rates, allowed)
        return look

    def _seen(self, rates: Rates, allowed: frozenset[str] | None) -> StatusLook:
        """The last look at these queues; None: at all."""
        figures = rates.now.figures

        def shown(name: str, q_names: Callable[[Mapping[str, Any]], Any]) -> Sequence[Mapping[str, Any]]:
            found: Sequence[Mapping[str, Any]] = figures[name]
            return found if allowed is None else [each for each in found if allowed.issuperset(q_names(each))]

        return StatusLook(
            self._at, self._number, {name: figures[name] for name in figures if name not in _LISTS},
            shown("queues", lambda each: (each["name"],)),
            shown("handlers", lambda each: (each["queue"],)),
            shown("consumers", lambda each: each["queues"].split(", ")),
            shown("prepared_units", lambda each: each["queues"]),
            figures["units_of_work"],
            rates,
            self._flows if allowed is None else {name: self._flows[name] for name in allowed & self._flows.keys()},
            self._oldest, self._failing,
            [each for each in self.lately.events if allowed is None or not each.q_name or each.q_name in allowed],
            self.series, {},
        )  # fmt: skip

    def failing(self) -> dict[str, str]:
        """Return the checks of health that fail now, by their names, each with its reason; of a queue manager in
        another process, those that the last look has told of.
        """
        return self._failing_now(None if self._rates is None else self._rates.now.figures)

    def _failing_now(self, figures: Mapping[str, Any] | None) -> dict[str, str]:
        known = {} if figures is None else told_by(figures)
        return {**known, **self._served.failing_checks(ready=True)}

    async def next(self, number: int) -> None:
        """Return when there has been a look after that of this number, or the console ends: to all who wait one after
        the other, so that calls go on between.
        """
        while self._number <= number and not self.ended:
            self._asked = self._clock.monotonic()
            self._begin()
            await self._looked.wait()
        async with self._turn:
            pass

    def end(self) -> None:
        """StatusLook no more; whoever waits for a look goes on."""
        self.ended = True
        if self._scope is not None:
            self._scope.cancel()
        self._tell()

    async def _wake(self) -> None:
        self._asked = self._clock.monotonic()
        self._begin()
        if not self._number:
            await self.next(0)

    def _begin(self) -> None:
        if self._scope is None and not self.ended:
            self._scope = anyio.CancelScope()
            self._start_soon(self._run, self._scope)

    async def _run(self, scope: anyio.CancelScope) -> None:
        with scope:
            while self._clock.monotonic() - self._asked < KEPT_SECONDS:
                try:
                    async with self._served.as_server() as connection:
                        await self._look_on(connection)
                except MQError as error:
                    self._failed(error)
                    await self._clock.sleep(LOOK_SECONDS)
        self._scope = None
        if not self.ended:
            self._number, self._observation, self._rates = 0, None, None

    async def _look_on(self, connection: Connection) -> None:
        while self._clock.monotonic() - self._asked < KEPT_SECONDS:
            began = self._clock.monotonic()
            figures = await connection.status()
            now = self._clock.monotonic()
            await self._take(Observation(now, figures))
            await self._clock.sleep(min(max(LOOK_SECONDS, _PAUSE * (now - began)), _PAUSE_MAX))

    def _failed(self, error: MQError) -> None:
        if self._error is None:
            self.lately.checks(self._clock.time(), {"queue manager": str(error)})
        self._error = error
        self._number += 1
        self._tell()

    async def _take(self, observation: Observation) -> None:
        before, at = self._observation, self._clock.time()
        await anyio.lowlevel.checkpoint()
        rates = Rates(before, observation)
        oldest, flows = await self._count(rates, at)
        self._failing = self._failing_now(observation.figures)
        await anyio.lowlevel.checkpoint()
        self.lately.checks(at, self._failing)
        for _ in self.lately.compare(at, None if before is None else before.figures, observation.figures):
            await anyio.lowlevel.checkpoint()
        self._observation, self._rates, self._at, self._error = observation, rates, at, None
        self._oldest, self._flows = oldest, flows
        self._number += 1
        self._tell()

    async def _count(self, rates: Rates, at: float) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
        """Take down the series; since when each queue has its oldest message, and what comes and goes, in steps."""
        oldest: dict[str, float] = {}
        flows: dict[str, tuple[float, float]] = {}
        queues, kept = rates.now.figures["queues"], self.series.names
        for start in range(0, len(queues), _STEP):
            some = queues[start : start + _STEP]
            flows.update(rates.flows(some))
            for queue in some:
                name, depth, age = queue["name"], queue["depth"], queue["oldest_age"]
                if age:
                    known = self._oldest.get(name, 0.0)
                    oldest[name] = known if abs(at - age - known) < 1 else at - age
                if depth or name in flows or name in kept:
                    puts, gets = flows.get(name, (0.0, 0.0))
                    series = self.series.wants(name, puts + gets or _THERE * bool(depth))
                    if series is not None:
                        series.add((depth, puts, gets, age))
            await anyio.lowlevel.checkpoint()
        self.series.keep({each["name"] for each in queues})
        return oldest, flows

    async def _allowed_of(self, caller: ConsoleCaller) -> frozenset[str] | None:
        """The names of the queues that a caller may display; None: all. Raises NOT_AUTHORIZED (2035) without DSP on
        the queue manager.
        """
        if caller.administrator:
            return None
        now = self._clock.monotonic()
        until, names = self._allowed.get(caller.user, (0.0, frozenset()))
        if until <= now:
            async with caller.connection() as connection:
                names = frozenset(each["name"] for each in (await connection.status())["queues"])
            if len(self._allowed) >= USERS_MAX:
                self._allowed.clear()
                self._looks.clear()
            self._allowed[caller.user] = now + ALLOWED_SECONDS, names
        return names

    def _tell(self) -> None:
        looked, self._looked = self._looked, anyio.Event()
        looked.set()


_LISTS: Final = frozenset({"queues", "handlers", "consumers", "prepared_units", "units_of_work"})
