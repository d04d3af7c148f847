"""A program of a simulation: its connection, its unit of work, and the calls that it makes, each with its entry in the
ledger.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Protocol

from broker import MQError
from broker.mqi import (
    MQCO,
    MQGMO,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
)
from broker.mqi.structures import NO_ID
from tests.simulation.ledger import QueueRecord, State, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from broker import Connection, Queue
    from broker.interface import PutResult
    from tests.simulation.ledger import Ledger, Message, Unit, Want

ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE
MODEL = "MODEL"
CORREL_IDS = (NO_ID, b"red".ljust(24), b"green".ljust(24))
PRIORITIES = (0, 0, 4, 9)
SIZES = (0, 0, 40, 300)
EXPIRIES = (-1, -1, -1, -1, 20, 300)  # tenths of a second
COUNTS = (1, 1, 1, 3)  # of messages that a get asks for
WAITS = (0.5, 3.0, 20.0, float("inf"))  # seconds

_ENDED = frozenset({MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_STOPPING})
_FULL = MQRC.STORAGE_MEDIUM_FULL
_DELETED = frozenset({MQRC.UNKNOWN_OBJECT_NAME, MQRC.Q_DELETED})


class World(Protocol):
    """The simulation, as a program needs it."""

    random: Random
    ledger: Ledger

    @property
    def refusals(self) -> int:
        """The number of writes that have found no room."""

    @property
    def refusals_heard(self) -> int:
        """Of how many of these the queue manager has heard."""

    @property
    def failing(self) -> bool:
        """True if connections may end although nobody ended them: the store has failed, or the process is dead."""

    def note(self, text: str) -> None:
        """Add a line to the trace."""


class Program:
    """A program. Every method is one call: a coroutine that makes it in its first step."""

    def __init__(self, world: World, number: int, connection: Connection) -> None:
        self.connection = connection
        self.name = f"P{number}"
        self.ended = False
        self._world = world
        self._ledger = world.ledger
        self._queues: dict[QueueRecord, Queue] = {}
        self._units = count(1)
        self._failed: dict[int, range] = {}  # how many writes had been refused: when a call was made that found no room
        self._under_way: list[Want] = []  # destructive gets under syncpoint
        self._waiting: set[asyncio.Task[None] | None] = set()  # gets that may wait
        self.unit = self._begin()

    async def open(self, queues: Iterable[QueueRecord]) -> None:
        """Open these queues."""
        for queue in queues:
            self._queues[queue] = await self.connection.open(queue.name, ALL)

    @property
    def may_end_unit(self) -> bool:
        """True if it is clear which gets a commit or backout made now would cover: those that wait may be granted
        before it or after it.
        """
        return not any(want.waits for want in self._under_way)

    def waits(self, task: asyncio.Task[None]) -> bool:
        """True if this is a get that may wait for a message."""
        return task in self._waiting

    def end(self) -> None:
        """The connection ends without a commit."""
        self.ended = True
        if self.unit.state is State.OPEN:
            self._give_up(self.unit)

    def _give_up(self, unit: Unit) -> None:
        """The unit is to be backed out, with the messages in it that have not been answered yet."""
        unit.state = State.BACKING_OUT
        for want in self._under_way:
            self._ledger.may_raise(want.queue, want.count)

    # Messages

    async def put(self, *, in_unit: bool) -> None:
        """Put a message, by a handle or by MQPUT1."""
        ledger = self._ledger
        queue = self._world.random.choice([each for each in ledger.queues.values() if each.there is not False])
        unit = self.unit if in_unit else self._begin(State.COMMITTING)
        message = self._message(unit, queue)
        self._note(f"put {message}")
        wall, refused, refusals = len(ledger.clock.walls), self._world.refusals, self._world.refusals_heard
        handle, options = self._queues.get(queue), _put_options(in_unit=in_unit)
        try:
            if handle is not None:
                result = await handle.put(message.data, _described(message), options)
            else:
                result = await self.connection.put1(queue.name, message.data, _described(message), options)
        except MQError as error:
            gone = _DELETED if queue.there is not True else frozenset[MQRC]()
            if self._reported(f"put {message.name}", error, refusals, {_FULL, *gone}):
                ledger.put_undone(message)
                self._has_failed(error, message.issued, refused)
            message.perhaps = in_unit
        except asyncio.CancelledError:
            message.perhaps = in_unit
            raise
        else:
            ledger.put_done(message, result.md, wall)
            if not in_unit:
                self._has_committed(unit, message.issued, refused)
            self._note(f"has put {message.name}")

    async def put_many(self, *, in_unit: bool) -> None:
        """Put a few messages in one call. Outside syncpoint each is a unit of its own; a failing write undoes all."""
        ledger = self._ledger
        queue, handle = self._world.random.choice(list(self._queues.items()))
        units = [self.unit if in_unit else self._begin(State.COMMITTING) for _ in range(max(COUNTS))]
        messages = [self._message(unit, queue) for unit in units]
        self._note(f"put {', '.join(map(str, messages))}")
        wall, refusals = len(ledger.clock.walls), self._world.refusals_heard
        results: Sequence[PutResult] = ()
        try:
            items = [(message.data, _described(message)) for message in messages]
            results = await handle.put_many(items, None, _put_options(in_unit=in_unit))
        except MQError as error:
            results = error.results
            certain = self._reported(f"put {messages[0].name} ...", error, refusals, {_FULL, *_DELETED})
            for message in messages[len(results) :]:
                message.perhaps = in_unit
                if certain:
                    ledger.put_undone(message)
        except asyncio.CancelledError:
            for message in messages:
                message.perhaps = in_unit
            raise
        for message, result in zip(messages, results, strict=False):
            ledger.put_done(message, result.md, wall)
            if not in_unit:
                ledger.end(message.unit, State.COMMITTED)
        self._note(f"has put {[message.name for message in messages[: len(results)]]}")

    def _message(self, unit: Unit, queue: QueueRecord) -> Message:
        random = self._world.random
        return self._ledger.put(
            unit,
            queue,
            priority=random.choice(PRIORITIES),
            persistent=random.random() < 0.75,
            expiry=random.choice(EXPIRIES),
            size=random.choice(SIZES),
            correl=random.choice(CORREL_IDS),
        )

    async def get(self, *, in_unit: bool) -> None:
        """Get a message or a few: the first, or those of a MsgId or CorrelId; perhaps wait for them."""
        random, ledger = self._world.random, self._ledger
        queue, handle = random.choice(list(self._queues.items()))
        wait = random.choice(WAITS) if random.random() < 0.3 else None
        want = ledger.want(
            queue, syncpoint=in_unit, waits=wait is not None, count=random.choice(COUNTS), **self._selection(queue)
        )
        unit = self.unit if in_unit else self._begin(State.OPEN)
        options = MQGMO.SYNCPOINT if in_unit else MQGMO.NO_SYNCPOINT
        self._note(f"get {queue.name} {'in unit ' if in_unit else ''}wait={wait}")
        if in_unit:
            self._under_way.append(want)
        refusals, task = self._world.refusals_heard, asyncio.current_task()
        if want.waits:
            self._waiting.add(task)
        try:
            if want.count == 1:
                got = [await handle.get(_descriptor(want), _options(options), wait=wait)]
            else:
                got = await handle.get_many(want.count, _descriptor(want), _options(options), wait=wait)
        except MQError as error:
            if not self._reported(f"get {queue.name}", error, refusals, {MQRC.NO_MSG_AVAILABLE, _FULL, *_DELETED}):
                ledger.unanswered(want)
        except asyncio.CancelledError:
            ledger.unanswered(want)
            raise
        else:
            ledger.failing = self._world.failing
            self._note(f"has got {[ledger.got(want, each, unit).name for each in got]}")
        finally:
            self._waiting.discard(task)
            if in_unit:
                self._under_way.remove(want)
            else:
                ledger.end(unit, State.COMMITTED)

    async def browse(self) -> None:
        """Browse the first message, or the next."""
        queue, handle = self._world.random.choice(list(self._queues.items()))
        step = self._world.random.choice([MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT])
        want = self._ledger.want(queue)
        self._note(f"browse {queue.name}")
        refusals = self._world.refusals_heard
        try:
            got = await handle.get(None, step)
        except MQError as error:
            self._reported(f"browse {queue.name}", error, refusals, {MQRC.NO_MSG_AVAILABLE, *_DELETED})
        else:
            self._ledger.failing = self._world.failing
            self._note(f"has browsed {self._ledger.seen(want, got).name}")

    async def drain(self) -> None:
        """Get all messages of all queues outside syncpoint: they come in the order in which the last audit found
        them.
        """
        ledger = self._ledger
        for queue in self._queues:
            left = [message for name in ledger.orders[queue][-1] if not ledger.mortal(message := ledger.messages[name])]
            while (got := await self._drain(queue)) is not None:
                if left[:1] == [got]:
                    left.pop(0)
                elif not ledger.mortal(got):
                    raise Violation(f"{got} is got out of turn: {[message.name for message in left]}")
            if left and not self._world.failing:
                raise Violation(f"{left[0]} was browsed, and cannot be got in its turn")

    async def _drain(self, queue: QueueRecord) -> Message | None:
        """Get the next message, if there is one."""
        ledger = self._ledger
        want, unit, refusals = ledger.want(queue), self._begin(), self._world.refusals_heard
        try:
            return ledger.got(want, await self._queues[queue].get(), unit)
        except MQError as error:
            if not self._reported(f"drain {queue.name}", error, refusals, {MQRC.NO_MSG_AVAILABLE, _FULL}):
                ledger.unanswered(want)
            return None if error.reason != _FULL else await self._drain(queue)
        except asyncio.CancelledError:
            ledger.unanswered(want)
            raise
        finally:
            ledger.end(unit, State.COMMITTED)

    # Units of work

    async def commit(self) -> None:
        unit, self.unit = self.unit, self._begin()
        await self._commit(unit, disconnect=False)

    async def backout(self) -> None:
        unit, self.unit = self.unit, self._begin()
        self._give_up(unit)
        self._note(f"back out {unit.name}")
        refusals = self._world.refusals_heard
        try:
            await self.connection.backout()
        except MQError as error:
            if self._reported(f"back out {unit.name}", error, refusals, {_FULL}):
                self._ledger.end(unit, State.BACKED_OUT)
        else:
            self._note(f"has backed out {unit.name}")
            self._ledger.end(unit, State.BACKED_OUT, counted=True)

    async def disconnect(self) -> None:
        """MQDISC, which commits."""
        self.ended = True
        await self._commit(self.unit, disconnect=True)

    async def _commit(self, unit: Unit, *, disconnect: bool) -> None:
        unit.state = State.COMMITTING
        for want in self._under_way:
            want.covered = True
        self._note(f"{'disconnect' if disconnect else 'commit'} {unit.name}")
        issued = self._ledger.tick()
        refused, refusals = self._world.refusals, self._world.refusals_heard
        try:
            await (self.connection.disconnect() if disconnect else self.connection.commit())
        except MQError as error:
            if self._reported(f"commit {unit.name}", error, refusals, {MQRC.BACKED_OUT}):
                self._ledger.end(unit, State.BACKED_OUT)
                self._has_failed(error, issued, refused)
        else:
            self._note(f"has committed {unit.name}")
            self._has_committed(unit, issued, refused)

    def _has_failed(self, error: MQError, issued: int, refused: int) -> None:
        """A put outside syncpoint or a commit has failed that was made at `issued`, when so many writes had been
        `refused`.
        """
        if error.reason in (_FULL, MQRC.BACKED_OUT):
            self._failed.setdefault(refused, range(issued, self._ledger.tick()))

    def _has_committed(self, unit: Unit, issued: int, refused: int) -> None:
        """One has succeeded. It must not have been under way behind one that found no room."""
        self._ledger.end(unit, State.COMMITTED)
        if issued in self._failed.get(refused, ()) and any(message.persistent for message in unit.puts):
            raise Violation(f"journal rule 6: {unit} is committed, and an earlier call of {self.name} found no room")

    # Definitions

    async def create(self) -> None:
        """Open the model queue: a permanent dynamic queue."""
        queue = self._new_queue("D")
        descriptor = ObjectDescriptor(object_name=MODEL, dynamic_q_name=queue.name)
        refusals = self._world.refusals_heard
        try:
            handle = await self.connection.open(descriptor, ALL)
        except MQError as error:
            if self._reported(f"create {queue.name}", error, refusals, {_FULL}):
                queue.there = False
        else:
            queue.there = True
            self._queues[queue] = handle
            self._note(f"has created {queue.name}")

    async def drop(self) -> None:
        """Close a dynamic queue with DELETE_PURGE."""
        queue, handle = next((queue, handle) for queue, handle in self._queues.items() if queue.name.startswith("D"))
        del self._queues[queue]
        if queue.there is False:
            return
        queue.there = None
        self._note(f"drop {queue.name}")
        refusals = self._world.refusals_heard
        try:
            await handle.close(MQCO.DELETE_PURGE)
        except MQError as error:
            if self._reported(f"drop {queue.name}", error, refusals, {_FULL, MQRC.Q_NOT_EMPTY}):
                queue.there = True
        else:
            queue.there = False
            self._note(f"has dropped {queue.name}")

    async def define(self) -> None:
        """Define a local queue with a command."""
        queue = self._new_queue("L")
        refusals = self._world.refusals_heard
        try:
            (reply,) = await self.connection.mqsc(f"DEFINE QLOCAL({queue.name}) HARDENBO")
        except MQError as error:
            self._reported(f"define {queue.name}", error, refusals, set())
            return
        self._note(f"{queue.name}: {reply.text}")
        if reply.ok:
            queue.there = True
        elif not self._world.failing:
            if refusals == self._world.refusals:
                raise Violation(f"{queue.name} was not defined: {reply.text}")
            queue.there = False

    @property
    def has_dynamic_queue(self) -> bool:
        return any(queue.name.startswith("D") for queue in self._queues)

    # What the calls have in common

    def _begin(self, state: State = State.OPEN) -> Unit:
        return self._ledger.begin(f"{self.name}.{next(self._units)}", state)

    def _new_queue(self, letter: str) -> QueueRecord:
        queue = QueueRecord(f"{letter}{len(self._ledger.queues)}", there=None)
        self._ledger.queues[queue.name] = queue
        self._note(f"make {queue.name}")
        return queue

    def _selection(self, queue: QueueRecord) -> dict[str, bytes]:
        """MsgId or CorrelId of some message of this queue, or nothing."""
        random = self._world.random
        if random.random() < 0.6:
            return {}
        known = [each for each in self._ledger.messages.values() if each.queue is queue][-20:]
        message = random.choice(known) if known else None
        if message is None or random.random() < 0.5:
            return {"correl_id": random.choice(CORREL_IDS)}
        return {"msg_id": message.msg_id}

    def _reported(self, call: str, error: MQError, refusals: int, expected: Iterable[int]) -> bool:
        """True if the error says for certain that the call has done nothing. It must be one that may be: `refusals` is
        how many writes the queue manager knew to have found no room when the call was made.
        """
        self._note(f"{call}: {error}")
        if error.reason in _ENDED:
            if self.ended or self._world.failing:
                return False
            raise Violation(f"journal rule 7: the connection of {self.name} has ended by itself: {error}")
        if error.reason not in expected:
            raise Violation(f"{call}: {error}") from error
        if error.reason in (_FULL, MQRC.BACKED_OUT) and refusals == self._world.refusals:
            raise Violation(f"journal rule 6: {call} failed, and nothing was refused: {error}") from error
        return True

    def _note(self, text: str) -> None:
        self._world.note(f"{self.name} {text}")


def _descriptor(want: Want) -> MessageDescriptor | None:
    if want.msg_id == want.correl_id == NO_ID:
        return None
    return MessageDescriptor(msg_id=want.msg_id, correl_id=want.correl_id)


def _described(message: Message) -> MessageDescriptor:
    """The descriptor to put a message with."""
    return MessageDescriptor(
        priority=message.priority,
        persistence=int(message.persistent),
        expiry=message.expiry,
        correl_id=message.correl_id,
    )


def _put_options(*, in_unit: bool) -> int:
    return MQPMO.SYNCPOINT if in_unit else MQPMO.NO_SYNCPOINT


def _options(options: int) -> GetMessageOptions:
    return GetMessageOptions(options=options, match_options=MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID)
