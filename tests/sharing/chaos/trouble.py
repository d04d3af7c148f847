"""Trouble for a group while programs work: to its members, to their sessions, to the database."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.sharing.chaos.processes import StartError
from tests.sharing.postgres import OWNER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from tests.sharing.chaos.ledger import Ledger
    from tests.sharing.chaos.processes import Member
    from tests.sharing.database import GroupDatabase
    from tests.sharing.proxy import Proxy

logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0

STEPS: Final = {
    "BEGIN": 20, "put_messages": 20, "get_messages": 20, "join_unit": 5, "commit_units": 20, "outcome_of_unit": 2,
    "forget_units": 10, "COMMIT": 20, "write": 20, "take_tag": 5, "release_tag": 5, "UPDATE": 2,
    "publish_units": 5,
}  # fmt: skip
"""Where members die while programs work: about to take one of them for the nth time, or having taken it; so often at
most. A mixed unit is prepared by a write, decided by `commit_units`, ended by a write and forgotten; UPDATE renews the
lease (queue-sharing rules 10.3.1 and 10.3.4 to 10.3.6).
"""
STEPS_OF_RECOVERY: Final = "recover", "end_recovery"
STEPS_OF_START: Final = "join_group", *STEPS_OF_RECOVERY
"""Of its own recovery (queue-sharing rule 10.3.7)."""
STEPS_OF_TAKEOVER: Final = "count", "take_over", *STEPS_OF_RECOVERY
"""Of a peer's; `count` is of the sessions that are ended (queue-sharing rules 10.3.2 and 10.3.3)."""

SLOWEST_SECONDS: Final = LEASE_SECONDS
"""Longer than the database lets a statement take."""

_MEANWHILE: Final = 0.5  # of the times when statements are slow something else happens
_STARTS: Final = 20
_HEAL_SECONDS: Final = 120.0
_RENEWED: Final = (
    "SELECT count(*) FROM member WHERE state = 'ACTIVE' AND lease_until > $1::timestamptz + make_interval(secs => $2)"
)


class Trouble:
    """All that goes wrong, chosen by `random`; one thing after the other. `happened` counts it.

    `lines` are those of the members to the database.
    """

    def __init__(
        self, group: GroupDatabase, members: list[Member], lines: list[Proxy], ledger: Ledger, random: Random
    ) -> None:
        self.happened: Counter[str] = Counter()
        self._group = group
        self._members = members
        self._lines = lines
        self._ledger = ledger
        self._random = random
        self._steps: list[str] = []  # that have not had their turn
        self._kinds: list[Callable[[], Awaitable[None]]] = []
        self._shares: dict[Callable[[], Awaitable[None]], int] = {
            self._kill: 4,
            self._die_at_a_step: 6,
            self._die_in_a_recovery: 1,
            self._end_in_order: 1,
            self._stop_briefly: 2,
            self._stop_beyond_the_lease: 1,
            self._restart_database: 1,
            self._crash_database: 1,
            self._terminate_session: 4,
            self._cut_listeners: 2,
            self._lose_answers: 4,
            self._hold_line: 2,
            self._slow_statements: 3,
        }

    async def run(self, seconds: float) -> None:
        """Make trouble for so long; then heal everything."""
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, self._random.uniform(0.2, 1.5)))
            if not self._kinds:
                self._kinds = [kind for kind, share in self._shares.items() for _ in range(share)]
                self._random.shuffle(self._kinds)
            kind = self._kinds.pop()
            if kind in (self._stop_beyond_the_lease, self._die_in_a_recovery) and left < 2 * LEASE_SECONDS:
                continue
            logger.info("trouble: %s", kind.__name__)
            self.happened[kind.__name__.strip("_").replace("_", " ")] += 1
            await kind()
            await self._revive()

    async def heal(self) -> None:
        """Everything runs, and nobody dies at a step any more. Return when each member has renewed its lease since: one
        that has slept too long ends only when it hears of that.
        """
        for member in self._members:
            member.go_on()
        begun = await self._group.value("SELECT clock_timestamp()")
        async with asyncio.timeout(_HEAL_SECONDS):
            while await self._group.value(_RENEWED, begun, LEASE_SECONDS) < len(self._members):
                await self._revive()
                await asyncio.sleep(0.2)

    async def _revive(self) -> None:
        """Start all members again that have ended."""
        for member in self._members:
            if member.process is None or member.process.returncode is not None:
                await self._start(member)

    async def _start(self, member: Member, step: str = "") -> None:
        """Start a member; it may have to wait for its lease, or for the database."""
        for _ in range(_STARTS):
            try:
                await member.start(step)
            except StartError as error:
                self.happened["start that failed"] += 1
                logger.info("%s", error)
                if step:
                    return  # it has died in its start, as it was to
                await asyncio.sleep(0.5)
            else:
                return
        raise AssertionError(f"{member.name} does not start: {member.log()[-3000:]}")

    def _one(self) -> Member:
        return self._random.choice(self._members)

    # The kinds

    async def _kill(self) -> None:
        await self._one().kill()
        await asyncio.sleep(self._random.choice((0.0, 0.5, 2.0)))

    async def _die_at_a_step(self) -> None:
        if not self._steps:  # each has its turn
            names = [f"{name} {self._random.randint(1, most)}" for name, most in STEPS.items()]
            names += [f"{name} 1" for name in STEPS_OF_START]
            self._steps = [f"{when} {name}" for when in ("before", "after") for name in names]
            self._random.shuffle(self._steps)
        await self._die(self._one(), self._steps.pop(), 5.0)

    async def _die_in_a_recovery(self) -> None:
        """A member that recovers another, unless a third one is quicker."""
        failed, recoverer = self._random.sample(self._members, 2)
        when, name = self._random.choice(("before", "after")), self._random.choice(STEPS_OF_TAKEOVER)
        number = 2 if name in STEPS_OF_RECOVERY else 1  # the first is of its own start
        await failed.kill()
        await self._die(recoverer, f"{when} {name} {number}", 1.5 * LEASE_SECONDS)

    async def _die(self, member: Member, step: str, seconds: float) -> None:
        """A member starts, and dies at a step; if it does not come there within so long, it is killed."""
        await member.kill()
        logger.info("%s dies %s", member.name, step)
        await self._start(member, step)
        assert member.process is not None
        try:
            async with asyncio.timeout(seconds):
                await member.process.wait()
            self.happened[f"died {' '.join(step.split()[:-1])}"] += 1
        except TimeoutError:
            await member.kill()

    async def _end_in_order(self) -> None:
        await self._one().end()

    async def _stop_briefly(self) -> None:
        await self._stop(self._random.uniform(0.1, 3.0))

    async def _stop_beyond_the_lease(self) -> None:
        await self._stop(LEASE_SECONDS + self._random.uniform(1.0, 4.0))

    async def _stop(self, seconds: float) -> None:
        member = self._one()
        member.stop()
        await asyncio.sleep(seconds)
        member.go_on()

    async def _restart_database(self) -> None:
        await asyncio.to_thread(self._group.server.restart, "fast")

    async def _crash_database(self) -> None:
        self._ledger.database_crashed()
        await asyncio.to_thread(self._group.server.restart, "immediate")
        self._ledger.database_crashed()

    async def _terminate_session(self) -> None:
        """Of the purpose that has been met with least."""
        sessions = await asyncio.to_thread(
            self._group.server.sql,
            "SELECT pid, split_part(application_name, '/', 4) FROM pg_stat_activity"
            f" WHERE starts_with(application_name, '{self._group.name}/')",
        )
        by_purpose: dict[str, list[str]] = {}
        for pid, purpose in sessions:
            by_purpose.setdefault(purpose, []).append(pid)
        if by_purpose:
            purpose = min(sorted(by_purpose), key=lambda purpose: self.happened[_met(purpose)])
            self.happened[_met(purpose)] += 1
            await self._terminate(self._random.choice(by_purpose[purpose]))

    async def _lose_answers(self) -> None:
        """Lose answers of the database: each member's line is cut for answers of another kind."""
        kinds = self._random.sample((b"COMMIT", b"SELECT", b""), k=3)
        for line, kind in zip(self._lines, kinds, strict=False):
            line.to_client = lambda piece, kind=kind: None if kind in piece else piece
        await asyncio.sleep(self._random.uniform(0.1, 0.5))
        for line in self._lines:
            line.to_client = None

    async def _hold_line(self) -> None:
        """Nothing passes between one member and the database for a while, and all of it afterwards."""
        line = self._random.choice(self._lines)
        line.hold()
        await asyncio.sleep(self._random.choice((0.1, 3.0, LEASE_SECONDS + 2.0)))
        line.let_through()

    async def _slow_statements(self) -> None:
        """For a while statements take long, some of them, at random, behind the fence that they hold."""
        await self._slow(self._random.choice((0.02, 0.1, 0.5)), self._random.choice((0.1, 1.0, SLOWEST_SECONDS)))
        await asyncio.sleep(self._random.uniform(1.0, 5.0))
        if self._random.random() < _MEANWHILE:
            await self._random.choice((self._terminate_session, self._lose_answers, self._kill))()
        await self._slow(0.0, 0.0)

    async def _slow(self, share: float, seconds: float) -> None:
        sql = f"UPDATE {self._group.schema}.slowness SET share = {share}, seconds = {seconds}"
        await asyncio.to_thread(self._group.server.sql, sql, database=OWNER)

    async def _terminate(self, pid: str) -> None:
        await asyncio.to_thread(self._group.server.sql, f"SELECT pg_terminate_backend({int(pid)})")

    async def _cut_listeners(self) -> None:
        await asyncio.to_thread(
            self._group.server.sql,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE starts_with(application_name, '{self._group.name}/') AND application_name LIKE '%/listen'",
        )


def _met(purpose: str) -> str:
    return f"session of {purpose or 'nothing'} terminated"
