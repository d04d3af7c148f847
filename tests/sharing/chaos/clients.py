"""Programs that put, move and get messages of a group by way of whichever member they reach."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import TYPE_CHECKING, Final, TypedDict

from broker import MQError
from broker.client import connect
from broker.mqi import MQCNO, MQGMO, MQGS, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor, ObjectDescriptor
from broker.mqi.delivery_fields import Became, ServiceOptions, Settlement
from broker.mqi.delivery_fields import Outcome as End
from tests.sharing.chaos.ledger import Key, Outcome, Put

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from broker import Connection, Message, Queue
    from broker.mqi.delivery_fields import Settled
    from tests.sharing.chaos.ledger import Ledger

    Step = Callable[[Connection, dict[str, Queue], str], Awaitable[None]]

DEFINITIONS: Final = """\
DEFINE QLOCAL(IN) QSGDISP(SHARED) MAXDEPTH(999999999) DEFPSIST(YES)
DEFINE PROCESS(P) QSGDISP(GROUP)
DEFINE QLOCAL(OUT) QSGDISP(SHARED) MAXDEPTH(999999999) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)
DEFINE QLOCAL(LINE) QSGDISP(SHARED) MAXDEPTH(999999999) DEFPSIST(YES)
DEFINE QLOCAL(ALONE) QSGDISP(SHARED) MAXDEPTH(999999999) DEFPSIST(YES)
DEFINE QLOCAL(GROUPS) QSGDISP(SHARED) MAXDEPTH(999999999) DEFPSIST(YES)
DEFINE QLOCAL(PROBE) QSGDISP(SHARED) DEFPSIST(NO)
"""
PRIVATE: Final = """\
DEFINE QLOCAL(OWN) MAXDEPTH(999999999) DEFPSIST(YES)
DEFINE QLOCAL(INBOX) MAXDEPTH(999999999) DEFPSIST(YES)
ALTER QMGR IGQ(ENABLED)
"""

SHARED_QUEUES: Final = ("IN", "OUT", "LINE", "ALONE", "GROUPS")
"""Programs put on IN, move to OUT, and consume there, by gets and by deliveries; on LINE for the one
program that has the tag; on ALONE they put and get outside syncpoint; on GROUPS are message groups.
"""
PROBE: Final = "PROBE"
"""The shared queue by which one sees whether a member works."""
PRIVATE_QUEUES: Final = ("OWN", "INBOX")
"""Each member's: OWN takes marks, INBOX persistent messages, from other members by intra-group queuing."""
PRIORITIES: Final = 3

_ALL: Final = MQOO.INPUT_SHARED | MQOO.OUTPUT
_SESSION_SECONDS: Final = 40.0
"""After so long a program hangs up: what it waits for is of a member that has been stopped."""
_AGAIN_SECONDS: Final = 0.05
_UNITS: Final = 40  # by one connection
_WAIT_SECONDS: Final = 0.2
_DRAINED: Final = 100  # by one call
_TERMS: Final = ServiceOptions(handler="chaos", attempts=None, backoff=(0.05,), doubles=False)
_WHOLE: Final = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
_UNHEARD: Final = MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_STOPPING, MQRC.CF_NOT_AVAILABLE
"""Reasons that leave open what a get has got (queue-sharing rule 10.2.6)."""


class Tag(TypedDict, total=False):
    """The connection tag of a client."""

    options: int
    conn_tag: bytes


class Client:
    """One program. `member` names the one to connect to now, with its address, and `members` are the names of all;
    `name` begins its keys; it rests for `pause` seconds between two steps.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        random: Random,
        member: Callable[[], tuple[str, str] | None],
        members: Sequence[str],
        pause: float = 0.0,
    ) -> None:
        self.name = name
        self.reasons: dict[str, int] = {}
        self._ledger = ledger
        self._random = random
        self._member = member
        self._members = members
        self._pause = pause
        self._units = 0
        self._ends = False

    def end(self) -> None:
        """Begin nothing more."""
        self._ends = True

    async def finish(self) -> None:
        """Finish what the end has interrupted and what has to be finished. All members serve."""

    async def run(self) -> None:
        """Work until the end, by one connection after the other."""
        while not self._ends:
            found = self._member()
            if found is not None:
                try:
                    async with asyncio.timeout(_SESSION_SECONDS):
                        await self._work(*found)
                except (MQError, OSError, TimeoutError) as error:
                    reason = str(error.reason) if isinstance(error, MQError) else type(error).__name__
                    self.reasons[reason] = self.reasons.get(reason, 0) + 1
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _work(self, member: str, address: str) -> None:
        url = f"mq://{address}/{member}"
        async with connect(url, appl_name=self.name, **self._tag()) as connection:
            queues = {name: await connection.open(name, _ALL) for name in SHARED_QUEUES + PRIVATE_QUEUES}
            for _ in range(
                self._random.randrange(1, _UNITS)
            ):  # then to another member, perhaps one that has just begun
                if self._ends:
                    return
                await self._choose()(connection, queues, member)
                await asyncio.sleep(self._pause)

    def _tag(self) -> Tag:
        """One of its own, or none: it waits for the end of its last unit of work, or it does not."""
        if self._random.random() < 0.7:
            return Tag()
        return Tag(options=MQCNO.SERIALIZE_CONN_TAG_QSG, conn_tag=self.name.encode())

    def _choose(self) -> Step:
        steps: dict[Step, int] = {
            self._produce: 6, self._move: 6, self._consume: 2, self._handle: 2, self._put_alone: 1, self._get_alone: 1,
            self._put_group: 2, self._get_group: 2, self._send: 2, self._receive: 2,
        }  # fmt: skip
        return self._random.choices(list(steps), list(steps.values()))[0]

    def _keys(self, numbers: int, persistence: int | None = None) -> list[Key]:
        """Of the messages of a new unit of work."""
        self._units += 1
        return [self._key(number, persistence) for number in range(numbers)]

    def _key(self, number: int, persistence: int | None) -> Key:
        if persistence is None:
            persistence = int(self._random.random() < 0.7)
        return Key(self.name, self._units, number, self._random.randrange(PRIORITIES), persistence)

    async def _produce(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """A unit of some messages, and perhaps a mark on the member's own queue."""
        keys = self._keys(self._random.randrange(1, 5))
        queue = queues[self._random.choices(("IN", "LINE"), (4, 1))[0]]
        unit = self._ledger.put(Put(keys, member, mixed=self._random.random() < 0.3))
        for key in keys:
            await queue.put(bytes(key), descriptor(key), MQPMO.SYNCPOINT)
        if unit.mixed:
            await queues["OWN"].put(f"{self.name}:{self._units}".encode(), options=MQPMO.SYNCPOINT)
        await self._end_put(connection, unit)

    async def _put_group(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """A unit that is a group, all of one priority and persistence."""
        first, *others = self._keys(self._random.randrange(2, 5))
        keys = [first, *(key._replace(priority=first.priority, persistence=first.persistence) for key in others)]
        unit = self._ledger.put(Put(keys, member))
        for key in keys:
            md = descriptor(key)
            md.msg_flags = MQMF.LAST_MSG_IN_GROUP if key is keys[-1] else MQMF.MSG_IN_GROUP
            await queues["GROUPS"].put(bytes(key), md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)
        await self._end_put(connection, unit)

    async def _send(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """A unit of some messages for a queue of one member, by intra-group queuing if that is another."""
        keys = self._keys(self._random.randrange(1, 5), persistence=1)
        unit = self._ledger.put(Put(keys, member))
        inbox = ObjectDescriptor(object_name="INBOX", object_q_mgr_name=self._random.choice(self._members))
        for key in keys:
            await connection.put1(inbox, bytes(key), descriptor(key), options=MQPMO.SYNCPOINT)
        await self._end_put(connection, unit)

    async def _end_put(self, connection: Connection, unit: Put) -> None:
        if self._random.random() < 0.1:
            await connection.backout()
            unit.outcome = Outcome.BACKED_OUT
            return
        try:
            await connection.commit()
        except MQError as error:
            if error.reason == MQRC.BACKED_OUT:
                unit.outcome = Outcome.BACKED_OUT
            raise
        unit.outcome = Outcome.COMMITTED

    async def _move(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """Some messages from IN to OUT, each with the priority and the persistence it has."""
        moved = 0
        while moved < 3 and (message := await self._taken(queues["IN"])) is not None:
            await queues["OUT"].put(message.data, descriptor(Key.of(message.data)), MQPMO.SYNCPOINT)
            moved += 1
        await self._end_unit(connection)
        self._ledger.moved += moved

    async def _consume(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """Some messages of OUT, for good."""
        await self._consume_of(connection, queues["OUT"])

    async def _receive(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """Some messages of this member's queue, for good."""
        await self._consume_of(connection, queues["INBOX"])

    async def _get_group(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """A whole group, for good."""
        keys: list[Key] = []
        crashes = self._ledger.crashes
        while (message := await self._taken(queues["GROUPS"], options=_WHOLE)) is not None:
            keys.append(Key.of(message.data))
            if message.group_status == MQGS.LAST_MSG_IN_GROUP:
                break
        self._ledger.got_group(keys, crashes)
        await self._end_get(connection, keys)

    async def _consume_of(self, connection: Connection, queue: Queue, wait: float | None = None) -> list[Key]:
        """Get some messages for good; those of which it is certain."""
        keys: list[Key] = []
        while len(keys) < 3 and (message := await self._taken(queue, wait)) is not None:
            keys.append(Key.of(message.data))
        return await self._end_get(connection, keys)

    async def _end_get(self, connection: Connection, keys: list[Key]) -> list[Key]:
        outcome = Outcome.UNKNOWN
        try:
            outcome = await self._end_unit(connection)
        except MQError as error:
            if error.reason == MQRC.BACKED_OUT:
                outcome = Outcome.BACKED_OUT
            raise
        finally:
            for key in keys:
                self._ledger.consume(key, outcome)
        return keys if outcome is Outcome.COMMITTED else []

    async def _handle(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """Some messages of OUT as deliveries, each for good unless its handling fails."""
        since = self._ledger.now
        async with connection.deliveries("OUT", options=_TERMS) as deliveries:
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    taken = await deliveries.take(3)
            except TimeoutError:
                return
            keys = [Key.of(each.messages[0].data) for each in taken]
            for key in keys:
                self._ledger.got(key, since)
            ends = self._random.choices((End.DONE, End.FAILED, End.RETURNED), (8, 1, 1), k=len(keys))
            outcomes = [Outcome.UNKNOWN] * len(keys)
            try:
                settled = await deliveries.settle(
                    [Settlement(each.id, end) for each, end in zip(taken, ends, strict=True)]
                )
                outcomes = [_outcome(each) for each in settled]
            finally:
                for key, outcome in zip(keys, outcomes, strict=True):
                    self._ledger.consume(key, outcome)

    async def _put_alone(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """One message outside syncpoint."""
        (key,) = self._keys(1)
        unit = self._ledger.put(Put([key], member, alone=True))
        await queues["ALONE"].put(bytes(key), descriptor(key), MQPMO.NO_SYNCPOINT)
        unit.outcome = Outcome.COMMITTED

    async def _get_alone(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """One message outside syncpoint: where the line breaks, or the member loses the group meanwhile, it may be
        gone without anybody having it.
        """
        try:
            message = await queues["ALONE"].get(options=MQGMO.NO_SYNCPOINT)
        except MQError as error:
            if error.reason == MQRC.NO_MSG_AVAILABLE:
                return
            if error.reason in _UNHEARD:
                self._ledger.unheard[str(error.reason)] += 1
            raise
        except asyncio.CancelledError:
            self._ledger.unheard["cancelled"] += 1
            raise
        else:
            self._ledger.consume(Key.of(message.data), Outcome.COMMITTED)

    async def _taken(self, queue: Queue, wait: float | None = None, options: int = 0) -> Message | None:
        """The next message, under syncpoint, if there is one."""
        since = self._ledger.now
        try:
            message = await queue.get(options=MQGMO.SYNCPOINT | options, wait=wait)
        except MQError as error:
            if error.reason == MQRC.NO_MSG_AVAILABLE:
                return None
            raise
        self._ledger.got(Key.of(message.data), since)
        return message

    async def _end_unit(self, connection: Connection) -> Outcome:
        if self._random.random() < 0.1:
            await connection.backout()
            return Outcome.BACKED_OUT
        await connection.commit()
        return Outcome.COMMITTED


class Clerk(Client):
    """A program that consumes LINE, where there is one such in the group at a time: each goes on where the last one has
    stopped, since a connection tag keeps it from coming too early (queue-sharing 6).
    """

    def _tag(self) -> Tag:
        return Tag(options=MQCNO.SERIALIZE_CONN_TAG_QSG, conn_tag=b"CLERK")

    def _choose(self) -> Step:
        return self._serve

    async def _serve(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        turn = next(self._ledger.turns)
        self._ledger.in_turn.append((turn, await self._consume_of(connection, queues["LINE"], _WAIT_SECONDS)))


def _outcome(settled: Settled) -> Outcome:
    """Return what a worker knows of a delivery that has ended."""
    if settled.reason in (MQRC.OUTCOME_PENDING, MQRC.HOBJ_ERROR):
        return Outcome.UNKNOWN
    return Outcome.COMMITTED if settled.became == Became.GONE else Outcome.BACKED_OUT


def descriptor(key: Key) -> MessageDescriptor:
    """Of the message with this key."""
    return MessageDescriptor(priority=key.priority, persistence=key.persistence)


async def drain(addresses: list[str], queue: str) -> list[Key]:
    """All that is on a shared queue, got for good by way of all members in turn."""
    keys: list[Key] = []
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(connect(f"mq://{address}")) for address in addresses]
        queues = [await member.open(queue, MQOO.INPUT_SHARED) for member in members]
        with suppress(MQError):  # NO_MSG_AVAILABLE, in the end
            for turn in count():
                messages = await queues[turn % len(queues)].get_many(_DRAINED, options=MQGMO.NO_SYNCPOINT)
                keys += [Key.of(message.data) for message in messages]
    return keys


async def browsed(address: str, queue: str) -> list[bytes]:
    """Return the messages on a private queue of a member."""
    found: list[bytes] = []
    async with connect(f"mq://{address}") as connection, connection.open(queue, MQOO.BROWSE) as handle:
        with suppress(MQError):  # NO_MSG_AVAILABLE, in the end
            while True:
                found += [message.data for message in await handle.get_many(256, options=MQGMO.BROWSE_NEXT)]
    return found


async def marks(address: str) -> list[tuple[str, int]]:
    """The units whose marks are on OWN of a member."""
    parted = [body.decode().split(":") for body in await browsed(address, "OWN")]
    return [(producer, int(number)) for producer, number in parted]
