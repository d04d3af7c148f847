"""Mixed units of work: on private and on shared queues, all or nothing (queue-sharing rules 10.3.4 to 10.3.7).

1.  The unit has its row in the database, ACTIVE, from its first call on a shared queue, or from now on.
2.  Its prepared branch is prepared: durable in the journal, without effect, named by the id of that row.
3.  One transaction in the database makes the row COMMITTED, with all that the unit does there. That is the decision.
4.  The unit is settled and answered.
5.  The prepared branch ends, in the next batch of the journal.
6.  When that is durable the row goes.

What breaks off before 3 is backed out: the prepared branch by its member, the rest by whoever finds the row ACTIVE.
After
3 it is committed. Where nobody knows whether 3 was reached, the row says so (`Outcomes`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from broker.core.prepared.branches import PreparedBranch
from broker.sharing.puts.writing import begin_unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from broker.core.message.rows import Rows
    from broker.core.queues.unit import Unit
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember
    from broker.storage.store import Done


class Mixed:
    """The prepared branches of one member, on their way."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._ending = 0  # branches that are committed, and not durably yet
        self._ended = anyio.Event()

    async def prepare(self, unit: Unit, rows: Rows, write: Callable[[Rows, Done], None]) -> PreparedBranch:
        """Make the prepared branch of a frozen unit durable: `write` has rows written. Raises what keeps it from that:
        MQError, StoreFullError, and StoreFailedError, when nobody knows.
        """
        core, context = self._member.core, self._member.context
        await self._begin(unit)
        branch = PreparedBranch.of(unit, rows, core.ids.next(), context.clock.time())
        await written(partial(write, branch.prepared_rows(rows)))
        core.branches.enter(branch)
        return branch

    async def _begin(self, unit: Unit) -> None:
        """See to it that the unit has a row before anything is prepared in its name. What an implicit unit has got
        outside syncpoint is gone already.
        """
        part = unit.shared
        assert part is not None
        if part.id is not None:
            return
        id = uuid4()
        self._member.units.outcomes.busy.add(id)

        async def work(session: DatabaseSession) -> UUID:
            await begin_unit(self._database, session, unit, id)
            return id

        part.id, part.life = await self._database.transact(work), self._database.epoch

    def commit(self, branch: PreparedBranch) -> None:
        """The decision is in the database: the branch ends with it, and then nobody needs the row."""
        rows = self._member.core.branches.decide(self._member.core, branch, committed=True)
        self._ending += 1

        def ended(error: Exception | None) -> None:
            self._ending -= 1
            if not self._ending:
                self._ended.set()
            if error is None:  # else the row tells the next start
                self._member.units.outcomes.over(branch.id)

        self._member.context.journal.submit(rows, ended)

    async def all_ended(self) -> None:
        """Wait until all branches that are committed are so durably."""
        while self._ending:
            self._ended = anyio.Event()
            await self._ended.wait()


async def written(submit: Callable[[Done], None]) -> None:
    """Submit something and wait until it is durable. Raises the error with which that ended."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(error: Exception | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)

    submit(settled)
    await outcome
