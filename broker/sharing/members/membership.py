"""Membership: the lives of one member in its group (queue-sharing 7, queue-sharing rules 10.3.1 to 10.3.3 and 10.3.8).

A life begins when the member joins, with an epoch that none had before, and with the end of what earlier lives have
left. It ends when the member leaves; when the database cannot be reached for so long that peers may take over; or when
one has done so. What the queue manager does then says CFCONLOS: with TERMINATE it ends. With TOLERATE private queues go
on, calls on shared queues fail with CF_NOT_AVAILABLE (2345), and the member joins again as soon as it can. Units of
work that had touched shared queues are backed out then, and handles on them go on, unless others use the queue in a
way that they cannot (2041); where the database is back before the life has ended, everything goes on as it was.
"""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_OID, UUID, uuid5

import anyio
import asyncpg
from asyncpg.exceptions import ClientConfigurationError

from broker.config import DURABLE
from broker.core.manager import INSTANCE
from broker.core.names.sharing_group import SharingGroup
from broker.engine.figures.sources import GroupFigures
from broker.engine.shared_queues import GroupError
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import LOST, OutcomeUnknownError
from broker.sharing.database.schema import UnsuitableError
from broker.sharing.database.sessions import NOT_JOINED
from broker.sharing.members.joining import HeldError, Joining
from broker.sharing.members.lease import MemberLease, words
from broker.sharing.members.lease_times import LeaseTimes
from broker.sharing.members.recovery import Claim, recover
from broker.sharing.members.snapshots import SnapshotWatch
from broker.sharing.members.takeover import Takeover

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

TERMINATE: Final = 0
"""CFCONLOS of a queue manager or of a structure: it ends when it has lost its group. 1 is TOLERATE."""

CHANGED: Final = "SELECT pg_notify(current_schema(), '@members')"
"""Let the other members look at the table of members."""

_MISTAKEN: Final = (
    asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError, asyncpg.InsufficientPrivilegeError,
    ClientConfigurationError, ssl.SSLCertVerificationError,
)  # fmt: skip
"""Errors of a database that is there: no waiting mends what the configuration of the member has wrong."""

LEAVE_SECONDS: Final = 10.0
"""The time in which a member tries to leave in order; what it leaves otherwise is for its peers."""

_AGAIN_SECONDS: Final = 0.5


class Membership:
    """The lives of one member. `state`: "joined", or "away" from the group, or "left" for good."""

    def __init__(self, member: GroupMember) -> None:
        self.times = LeaseTimes(member.group.lease)
        self.lease = MemberLease(member.database, self.times)
        self.takeover = Takeover(member.database, self.times, self._recovered)
        self.joining = Joining(member.database, self.lease, self._instance, self._await_recovery)
        self.state = "away"
        self.waits_for = "the queue manager starts"
        """The words for what keeps the member from its group; "" while it is there."""
        self.lives = 0
        self._member = member
        self._database = member.database
        self._database.over = self._life_is_over
        self._known = SharingGroup(member.group.name, frozenset({self.name}), away=True)
        self._lost = anyio.Event()
        self._why = ""
        self._stop = anyio.Event()

    @property
    def name(self) -> str:
        return self._database.member

    @property
    def tolerates(self) -> bool:
        """True if the queue manager goes on without its group: so says its CFCONLOS, and none of a structure says
        otherwise, which all are lost together.
        """
        objects = self._member.core.objects
        if objects.definition.attributes.get("CFCONLOS", TERMINATE) == TERMINATE:
            return False
        structures = [each.definition for each in objects.structures.values() if each.definition is not None]
        return all(each.attributes.get("CFCONLOS") != TERMINATE for each in structures)

    def scraped(self) -> GroupFigures:
        """Its figures for scrapes."""
        sessions = self._database.figures
        return GroupFigures(
            members=len(self._known.members),
            joined=self.state == "joined",
            lease_left=max(0.0, self.times.lease - self.lease.age) if self.state == "joined" else 0.0,
            calls=sessions.seconds,
            recoveries=self.takeover.recoveries,
            transactions={"begun": sessions.transactions, "retried": sessions.retries, "unknown": sessions.unknown},
            in_doubt=len(self._member.units.outcomes.doubts),
        )

    def figures(self) -> dict[str, Any]:
        """As the status shows them."""
        return {
            "state": self.state,
            "epoch": self._database.epoch,
            "renewals": self.lease.renewals,
            "recoveries": self.takeover.recoveries,
            "waits_for": self.waits_for,
        }

    # The beginning

    async def start(self) -> None:
        """Join, before the queue manager takes connections. Without the database it starts all the same with
        CFCONLOS(TOLERATE). Raises GroupError.
        """
        if self.name == self._database.group_name:
            raise GroupError(f"a queue manager cannot have the name of its queue-sharing group, {self.name}")
        self._member.core.objects.group = self._known
        self._advise()
        try:
            await self._join_patiently()
        except (MQError, OutcomeUnknownError, asyncpg.PostgresError, TimeoutError, *LOST) as error:
            self._database.shut(NOT_JOINED)
            refused = isinstance(error, MQError) and error.reason == MQRC.CF_STRUC_AUTH_FAILED
            if refused or isinstance(error, _MISTAKEN) or not self.tolerates:
                raise GroupError(self._reported(f"cannot be joined: {words(error)}")) from error
            self._not_joined(error)

    def _advise(self) -> None:
        """Tell of a queue manager from before TOLERATE became what new ones have how to change it."""
        own = self._member.core.objects.definition.attributes.get("CFCONLOS", TERMINATE)
        if own == TERMINATE and self._member.manager.config.queue_manager.defaults == DURABLE:
            logger.info(
                "group_loss_ends name=%s: the queue manager ends when it has lost its queue-sharing group, as when the "
                "database is away for %g s; with ALTER QMGR CFCONLOS(TOLERATE) it goes on, and joins again",
                self.name, self.times.give_up,
            )  # fmt: skip

    async def _join_patiently(self) -> None:
        """Join; where another of this name has a lease, when that has ended; where a peer recovers what it has left,
        when that is done. A queue manager that tolerates to be without its group waits no longer than a lease.
        """
        patience = anyio.current_time() + self.times.lease
        waited = False
        while True:
            try:
                return await self._join()
            except HeldError as held:
                if held.recoverer is not None:
                    self._await_recovery(held.recoverer)
                    if self.tolerates and anyio.current_time() > patience:
                        raise MQError(MQRC.CF_NOT_AVAILABLE, str(held)) from held
                    await anyio.sleep(min(held.seconds, self.times.watch))
                    continue
                if waited:
                    raise GroupError(self._reported(_taken(self.name, held))) from held
                waited, self.waits_for = True, str(held)
                logger.warning(
                    "%s",
                    self._reported(f"has a queue manager {self.name} with other data, at {held.address}: waiting "
                               f"{held.seconds:.1f} s for the end of its lease"), extra={"event": "group_awaits_lease"},
                )  # fmt: skip
                await anyio.sleep(held.seconds + self.times.watch)

    def _await_recovery(self, recoverer: str) -> None:
        """A peer keeps the member from its group, which is not to be held up."""
        if self._is_news(f"{recoverer} recovers what it has left"):
            logger.warning(
                "%s",
                self._reported(f"is joined when {recoverer} has recovered what {self.name} has left: waiting"),
                extra={"event": "group_awaits_recovery"},
            )

    def _not_joined(self, error: BaseException) -> None:
        """The database keeps the member from its group; it tries again."""
        why = words(error)
        if self._is_news(why):
            logger.warning("%s", self._reported(f"cannot be joined yet: {why}"), extra={"event": "group_not_joined"})
        else:
            logger.debug("group not joined again member=%s: %s", self.name, error)

    def _is_news(self, waits_for: str) -> bool:
        """True if the member waits for something else than before, which the log tells once."""
        before, self.waits_for = self.waits_for, waits_for
        return before != waits_for

    async def _join(self) -> None:
        """Begin a life, and end what earlier ones have left. Raises HeldError, GroupError, what the database raises."""
        database, member = self._database, self._member
        try:
            epoch = await self.joining.begin()
        except UnsuitableError as error:
            raise GroupError(self._reported(str(error))) from error
        database.begin(epoch)
        member.returned.forget()
        self.lives += 1
        self._lost = anyio.Event()
        try:
            await self._recover(epoch)
            await database.open()
            await member.joined()
        except BaseException:
            database.shut(NOT_JOINED)
            raise
        self.state = "joined"
        self.waits_for = ""
        self._known.away = False
        logger.info(
            "CSQE005I %s connected group=%s epoch=%d",
            self.name,
            database.group_name,
            epoch,
            extra={"event": "group_connected"},
        )

    def _instance(self) -> UUID:
        """Of the data of this queue manager."""
        attributes = self._member.core.objects.definition.attributes
        return uuid5(NAMESPACE_OID, f"{attributes.get('QMID')} {attributes.get(INSTANCE, '')}")

    async def _recover(self, claimed: int) -> None:
        """End what lives of this member before the epoch `claimed` have left."""
        joining = claimed == self._database.epoch

        async def step(work: Callable[[DatabaseSession], Awaitable[Any]]) -> Any:
            return await self._database.transact(work, joining=joining)

        claim = Claim(self.name, self._database.epoch, self.name, claimed, self.times.lease)
        done = await recover(claim, step)
        if done:
            logger.info(
                "recovered what was left member=%s epoch=%d units=%d locks=%d stray=%d",
                self.name, claimed, done.units, done.locks, done.stray,
            )  # fmt: skip

    # Life

    async def run(self) -> None:
        """Live, and join again where a life has ended and the queue manager goes on; return at `stop`."""
        while not self._stop.is_set():
            if self.state != "joined" and not await self._join_again():
                return
            await self._live()
            if self._stop.is_set():
                return
            if not self.tolerates:
                self._member.manager.fail(GroupError(self._reported(f"is lost: {self._why} (CFCONLOS(TERMINATE))")))
                return

    async def _live(self) -> None:
        """Keep the lease and look after peers, until the life ends or the queue manager does."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_lease, name=f"lease of {self.name}")
            tasks.start_soon(self._database.tidy, name=f"idle sessions of {self.name}")
            tasks.start_soon(self.takeover.watch, name=f"peers of {self.name}")
            tasks.start_soon(SnapshotWatch(self._database).run, name=f"snapshots that {self.name} looks at")
            tasks.start_soon(self._until_stop, name=f"end of {self.name} in its group")
            await self._lost.wait()
            tasks.cancel_scope.cancel()

    def _recovered(self) -> None:
        """A peer has been recovered."""
        self._member.manager.start_soon(self._member.triggering.adopt)

    async def _keep_lease(self) -> None:
        self._life_is_over(await self.lease.keep())

    async def _until_stop(self) -> None:
        """The lease is kept until the queue manager leaves (`leave`): its last units of work are under way."""
        await self._stop.wait()
        self._lost.set()

    def _life_is_over(self, why: str) -> None:
        """So says the lease, or the fence of a transaction: nothing of this life reaches the database any more."""
        if self.state != "joined" or self._lost.is_set():
            return
        self.state = "away"
        self._known.away = True
        self._why = self.waits_for = why
        self._database.shut(f"the queue manager has lost its queue-sharing group: {why}")
        logger.error(
            "CSQE006I %s disconnected group=%s epoch=%d: %s",
            self.name, self._database.group_name, self._database.epoch, why, extra={"event": "group_disconnected"},
        )  # fmt: skip
        self._lost.set()
        self._member.life_ended()

    async def _join_again(self) -> bool:
        """Join when that can be done. False: the queue manager ends, or is not to join any more."""
        while not self._stop.is_set():
            pause = min(self.times.watch, _AGAIN_SECONDS)
            try:
                await self._join()
            except HeldError as held:
                if held.recoverer is not None:
                    self._await_recovery(held.recoverer)
                elif self._is_news(str(held)):
                    logger.error("%s", self._reported(_taken(self.name, held)), extra={"event": "group_name_taken"})
            except GroupError as error:
                if self._is_news(str(error)):
                    logger.error("%s", error, extra={"event": "group_refused"})
            except (MQError, OutcomeUnknownError, asyncpg.PostgresError, TimeoutError, *LOST) as error:
                self._not_joined(error)
            else:
                return True
            with anyio.move_on_after(pause):
                await self._stop.wait()
        return False

    # The end

    def stop(self) -> None:
        """The queue manager ends."""
        self._stop.set()

    async def leave(self) -> None:
        """Leave in order: nothing of this member is left in the database. What cannot be done is for its peers."""
        if self.state == "joined":
            with anyio.move_on_after(LEAVE_SECONDS, shield=True) as scope:
                try:
                    await self._recover(self._database.epoch + 1)
                except (MQError, OutcomeUnknownError) as error:
                    logger.warning(
                        "%s",
                        self._reported(f"was not left in order, peers do what is left: {error}"),
                        extra={"event": "group_not_left"},
                    )
                else:
                    logger.info("CSQE006I %s disconnected group=%s epoch=%d",
                                self.name, self._database.group_name, self._database.epoch,
                                extra={"event": "group_disconnected"})  # fmt: skip
            if scope.cancelled_caught:
                logger.warning(
                    "%s",
                    self._reported(f"was not left in order within {LEAVE_SECONDS:g} s, peers do what is left"),
                    extra={"event": "group_not_left"},
                )
        self.state = "left"

    def _reported(self, what: str) -> str:
        return f"{self.name}: the queue-sharing group {self._database.group_name} {what}"


def _taken(name: str, held: HeldError) -> str:
    return (
        f"has a queue manager {name} already, which runs at {held.address}: names are unique in a group; end that one, "
        "or name this one otherwise"
    )
