"""The honest side: a producer and a worker on one host, and programs that log in there.

Each put is due at a moment that is fixed beforehand, and the time of its message counts from there to its handler. So a
daemon that serves nobody for a second is seen as such, though one put waits for it.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from broker import TLS, MQError, connect
from broker.benchmarks.body import now
from broker.mqi import MQOO
from tests.security.attack.scene import ATTACKED, DEAD, OTHERS, QUEUE, WORKER, body, number_of
from tests.security.lines import PASSWORD
from triggers import App

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Queue
    from broker.benchmarks.child import Ready, Told

INTERVAL_NS: Final = 10_000_000
"""A put is due so often."""

LOGIN_SECONDS: Final = 0.75
"""Between two logins."""

PATIENCE_SECONDS: Final = 30.0
"""So long the last messages may take."""

LOGIN_KINDS: Final = ("remembered", "other", "attacked", "token")
"""The kinds of those who log in: a user whose password is known since its last login; one that is new, of whom the
attacker knows nothing; one that is new, whose password the attacker tries; and one with a token.
"""


class Handled(NamedTuple):
    """A message that was handled: when its put was due, in seconds; how long it took to its handler, in milliseconds;
    and whether one of the host's own logins was under way, whose password costs the daemon a processor.
    """

    due: float
    ms: float
    beside_login: bool


class LoggedIn(NamedTuple):
    """A login: its kind, when it began, how long it took, and its error, if it failed."""

    kind: str
    began: float
    ms: float
    error: str


async def work(ready: Ready, *, url: str, ca: str, token: str, seen: str) -> Told:
    """Put and handle, and log in, from the first order to go until the second. The file `seen` has then what was seen.
    Told: `complaints`, and how many messages were put.
    """
    pair = HonestPair(url, TLS(ca=ca), token)
    async with pair.app.running(), connect(url, user=WORKER, password=PASSWORD, tls=pair.tls) as connection:
        queue = await connection.open(QUEUE, MQOO.OUTPUT)
        await ready()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pair.put, queue)
            tasks.start_soon(pair.log_in)
            await ready()
            pair.stop()
        with anyio.move_on_after(PATIENCE_SECONDS):
            while len(pair.ledger.times) < pair.ledger.acknowledged:
                await pair.news.wait()
    await anyio.Path(seen).write_text(json.dumps({"handled": pair.handled, "logins": pair.ledger.logins}), "utf-8")
    return {"complaints": list(pair.ledger.complaints()), "put": pair.ledger.acknowledged}


class Ledger:
    """The messages of which the producer was told that they are put, from number 0 on; how many `times` each was
    handled, how many were `changed`, and the logins.
    """

    def __init__(self) -> None:
        self.acknowledged = 0
        self.times: Counter[int] = Counter()
        self.changed = 0
        self.logins: list[LoggedIn] = []

    def complaints(self) -> Iterator[str]:
        """Yield the things that must not be: a message lost, doubled or changed, a login that failed."""
        lost = [number for number in range(self.acknowledged) if not self.times[number]]
        doubled = [number for number, times in self.times.items() if times > 1]
        for what, numbers in (("lost", lost), ("doubled", doubled)):
            if numbers:
                yield f"{len(numbers)} messages were {what}: {numbers[:5]}"
        if self.changed:
            yield f"{self.changed} messages were changed"
        for login in self.logins:
            if login.error:
                yield f"a login ({login.kind}) failed: {login.error}"


class HonestPair:
    """A producer and a worker, and those who log in beside them. A message has its number in its body."""

    def __init__(self, url: str, tls: TLS, token: str) -> None:
        self.tls = tls
        self.ledger = Ledger()
        self.handled: list[Handled] = []
        self.news = anyio.Event()
        self._url = url
        self._token = token
        self._begun = 0
        self._stopped = anyio.Event()
        self._busy = 0
        self.app = App(url, user=WORKER, password=PASSWORD, tls=tls)
        self.app.handler(QUEUE, dead_letter=DEAD)(self._handle)

    def stop(self) -> None:
        """Put and log in no more."""
        self._stopped.set()

    async def put(self, queue: Queue) -> None:
        """Put a message when it is due, until the end."""
        self._begun = now()
        for number in count():
            due = self._begun + number * INTERVAL_NS
            if self._stopped.is_set() and due > now():
                return
            if (early := due - now()) > 0:
                await anyio.sleep(early / 1e9)
            await queue.put(body(number))
            self.ledger.acknowledged += 1

    async def _handle(self, data: bytes) -> None:
        number = number_of(data)
        if number < 0:
            self.ledger.changed += 1
        else:
            due = self._begun + number * INTERVAL_NS
            self.handled.append(Handled(due / 1e9, (now() - due) / 1e6, self._busy > 0))
            self.ledger.times[number] += 1
        self.news.set()
        self.news = anyio.Event()

    async def log_in(self) -> None:
        """Log in again and again, each kind in turn, until the end."""
        for proof in self._proofs():
            with anyio.move_on_after(LOGIN_SECONDS):
                await self._stopped.wait()
                return
            kind, arguments = proof
            began, error = now(), ""
            self._busy += 1
            try:
                async with connect(self._url, tls=self.tls, **arguments):
                    pass
            except MQError as failed:
                error = str(failed)
            self._busy -= 1
            self.ledger.logins.append(LoggedIn(kind, began / 1e9, (now() - began) / 1e6, error))

    def _proofs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for other, attacked in zip(OTHERS, ATTACKED, strict=False):
            users = {"remembered": WORKER, "other": other, "attacked": attacked}
            for kind in LOGIN_KINDS:
                yield kind, {"user": users[kind], "password": PASSWORD} if kind in users else {"token": self._token}
