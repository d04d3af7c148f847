"""Short cuts come to what the long way comes to: the same random calls with and without them, what is seen compared.

The short cuts are the template of a repeated put, the way that is known of a repeated MQPUT1, the request remembered
for a repeated get, runs of puts and gets in batches, and the handing over of a message to a get that waits for it.
Without them each call goes through all checks, and every message through its queue and the journal.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker import Message, MQError, PutResult, QueueManager
from broker.core.calls import batches
from broker.core.calls.gets import getting
from broker.core.calls.puts import handoff, placing
from broker.core.names.objects import Objects
from broker.core.queues.counts.queue_counts import QueueCounts
from broker.mqi import (
    MQGMO,
    MQMF,
    MQMO,
    MQOO,
    MQPMO,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    PutMessageOptions,
)
from broker.storage.memory import MemoryStore
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker import Connection, Queue
    from broker.interface.put_extras import PutArguments

SEEDS = 40
STEPS = 100
MORE_SEEDS = 3000

DEFINITIONS = """\
DEFINE QLOCAL(PERSISTENT) DEFPSIST(YES) MAXDEPTH(30) MAXMSGL(60)
DEFINE QLOCAL(FIFO) DEFPSIST(NO) MSGDLVSQ(FIFO) NOHARDENBO
DEFINE PROCESS(P)
DEFINE QLOCAL(TRIGGERED) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)
DEFINE QALIAS(ALIAS) TARGET(FIFO) DEFPRTY(6)
DEFINE QLOCAL(REPLIES) MSGDLVSQ(FIFO)
DEFINE QLOCAL(FIRST) TRIGGER TRIGTYPE(FIRST) PROCESS(P)
DEFINE QLOCAL(XMIT) USAGE(XMITQ) MAXDEPTH(20)
DEFINE QREMOTE(REMOTE) RNAME(THERE) RQMNAME(QM2) XMITQ(XMIT)
DEFINE QLOCAL(ONCE) DEFPSIST(YES)
ALTER QMGR MAXUMSGS(15)
"""
SERVED = ("PERSISTENT", "FIFO", "TRIGGERED", "ALIAS", "REPLIES")
"""The queues that the programs put on and get from; on the others they only put."""
NAMES = (*SERVED, "FIRST", "REMOTE")
PUT_ONCE = (*NAMES, "ONCE")
LOCAL = ("PERSISTENT", "FIFO", "TRIGGERED", "REPLIES", "FIRST", "XMIT")
ALTERATIONS = (
    "ALTER QLOCAL(PERSISTENT) MAXDEPTH(5)",
    "ALTER QLOCAL(PERSISTENT) MAXDEPTH(30)",
    "ALTER QLOCAL(FIFO) PUT(DISABLED)",
    "ALTER QLOCAL(FIFO) PUT(ENABLED)",
    "ALTER QLOCAL(FIFO) GET(DISABLED)",
    "ALTER QLOCAL(FIFO) GET(ENABLED)",
    "ALTER QLOCAL(TRIGGERED) DEFPRTY(7) MAXMSGL(20)",
    "ALTER QLOCAL(TRIGGERED) DEFPRTY(0) MAXMSGL(100)",
    "ALTER QALIAS(ALIAS) TARGET(TRIGGERED)",
    "ALTER QALIAS(ALIAS) TARGET(FIFO)",
    "CLEAR QLOCAL(REPLIES)",
    "DELETE QLOCAL(ONCE) PURGE",
    "DEFINE QLOCAL(ONCE) DEFPRTY(3)",
    "DEFINE QALIAS(ONCE) TARGET(PERSISTENT)",
    "DELETE QALIAS(ONCE)",
)
WAIT_IN_UNIT = MQGMO.WAIT | MQGMO.SYNCPOINT
WAIT_TO_BROWSE = MQGMO.WAIT | MQGMO.BROWSE_NEXT
PUTS = (
    PutMessageOptions(),
    PutMessageOptions(),
    PutMessageOptions(options=MQPMO.SYNCPOINT.value),
    PutMessageOptions(options=MQPMO.SYNCPOINT.value),
    PutMessageOptions(options=MQPMO.NEW_CORREL_ID.value),
    PutMessageOptions(options=MQPMO.LOGICAL_ORDER.value),
    PutMessageOptions(options=(MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT).value),
    PutMessageOptions(version=9),
)
GETS = (
    MQGMO.NONE,
    MQGMO.NONE,
    MQGMO.SYNCPOINT,
    MQGMO.SYNCPOINT,
    MQGMO.SYNCPOINT_IF_PERSISTENT,
    MQGMO.ACCEPT_TRUNCATED_MSG,
    MQGMO.BROWSE_FIRST,
    MQGMO.BROWSE_NEXT,
    MQGMO.BROWSE_NEXT | MQGMO.MARK_BROWSE_HANDLE,
    MQGMO.BROWSE_NEXT | MQGMO.UNMARKED_BROWSE_MSG,
    MQGMO.BROWSE_NEXT | MQGMO.LOCK,
    MQGMO.LOGICAL_ORDER,
)


EXTRAS: tuple[PutArguments, ...] = (
    {"delay": 1.5},
    {"delay": 0.004},
    {"key": "a"},
    {"key": "b", "window": None, "delay": 1},
)


def descriptors() -> list[MessageDescriptor | None]:
    """Return the descriptors of puts. Programs use the same objects again and again, and change them in between."""
    return [
        None,
        None,
        MessageDescriptor(),
        MessageDescriptor(priority=8),
        MessageDescriptor(correl_id=b"C" * 24),
        MessageDescriptor(msg_id=b"M" * 24),
        MessageDescriptor(expiry=30),
        MessageDescriptor(report=(MQRO.COA | MQRO.COD).value, reply_to_q="REPLIES"),
        MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP.value),
        MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP.value),
    ]


class Habit(NamedTuple):
    """The habit of a program for a while: which of its queues it uses, and with which structures."""

    queue: int
    md: MessageDescriptor | None
    pmo: PutMessageOptions
    gmo: GetMessageOptions
    max_length: int | None


class Programs:
    """Two programs with handles on all queues, driven by a seed. What they see is written down."""

    def __init__(self, manager: QueueManager, clock: VirtualClock, seed: int) -> None:
        self.seen: list[object] = []
        self._random = random.Random(seed)
        self._manager = manager
        self._clock = clock
        self._names: dict[bytes, str] = {}  # identifiers in the order in which they are seen
        self._descriptors = [descriptors(), descriptors()]
        self._habits = [self._habit(program) for program in range(2)]
        self._connections: list[Connection] = []
        self._queues: list[list[Queue]] = []
        self._waiting: list[tuple[int, asyncio.Task[object]]] = []
        self._numbers = iter(range(1_000_000))

    async def run(self) -> None:
        async with self._manager.connect() as one, self._manager.connect() as two, self._manager.connect() as third:
            await third.mqsc(DEFINITIONS)
            self._observer = third
            self._connections = [one, two]
            self._queues = [[await _opened(each, name) for name in NAMES] for each in self._connections]
            for number in range(STEPS):
                await self._step()
                await self._look(whole=number % 10 == 0 or number == STEPS - 1)
            for _, task in self._waiting:
                task.cancel()

    async def _step(self) -> None:
        steps: list[tuple[int, Callable[[], Coroutine[object, object, object]]]] = [
            (16, self._calls),
            (3, self._wait),
            (1, self._alter),
            (1, self._pass_time),
            (1, self._reopen),
            (1, self._cancel),
            (1, self._drain),
        ]
        step = self._random.choices([each for _, each in steps], [weight for weight, _ in steps])[0]
        self.seen.append((step.__name__, await step()))
        for _ in range(6):  # what has to be said to those who wait has been said
            while not self._manager.journal.idle:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _calls(self) -> object:
        """Some calls of one program, made without waiting for one another."""
        program = self._random.randrange(2)
        calls = [self._call(program) for _ in range(self._random.choice((1, 1, 2, 5)))]
        return [self._reported(each) for each in await asyncio.gather(*calls, return_exceptions=True)]

    def _call(self, program: int) -> Coroutine[object, object, object]:
        chance = self._random.random()
        if chance < 0.05:
            return self._connections[program].commit()
        if chance < 0.1:
            return self._connections[program].backout()
        if self._random.random() < 0.2:  # most programs do the same again and again
            self._habits[program] = self._changed(self._habits[program], self._habit(program))
        habit = self._habits[program]
        queue = self._queues[program][habit.queue]
        if chance < 0.6:
            if habit.md is not None and self._random.random() < 0.1:
                habit.md.priority = self._random.randrange(10)
            if self._random.random() < 0.05:
                extras = self._random.choice(EXTRAS)
                return queue.put(self._data(), habit.md, habit.pmo, **extras)
            if self._random.random() < 0.2:
                name = self._random.choice((PUT_ONCE[habit.queue], "ONCE"))
                return self._connections[program].put1(name, self._data(), habit.md, habit.pmo)
            again = self._random.choice((1, 1, 4))
            if self._random.random() < 0.5:
                return queue.put_many([self._data() for _ in range(2 * again)], habit.md, habit.pmo)
            return _one_after_the_other([(queue, self._data(), habit.md, habit.pmo) for _ in range(again)])
        if self._random.random() < 0.5:
            return queue.get_many(self._random.choice((1, 3, 10)), None, habit.gmo)
        return queue.get(None, habit.gmo, max_length=habit.max_length)

    def _changed(self, habit: Habit, other: Habit) -> Habit:
        """A program mostly changes one of its ways at a time, on one queue."""
        if self._random.random() < 0.3:
            return other
        name = self._random.choice(("md", "pmo", "gmo", "max_length"))
        return habit._replace(**{name: getattr(other, name)})

    def _habit(self, program: int) -> Habit:
        return Habit(
            self._random.randrange(len(NAMES)),
            self._random.choice(self._descriptors[program]),
            self._random.choice(PUTS),
            GetMessageOptions(options=self._random.choice(GETS).value, match_options=self._match()),
            self._random.choice((None, None, 5)),
        )

    def _match(self) -> int:
        return self._random.choice((MQMO.NONE.value, MQMO.NONE.value, MQMO.MATCH_CORREL_ID.value))

    async def _wait(self) -> object:
        """A get that waits while others go on, and often a put of the other program that meets it."""
        # Not on the first queue, which can be full: a message handed over makes room sooner than one that is got.
        program, number = self._random.randrange(2), self._random.randrange(1, len(SERVED))
        queue = self._queues[program][number]
        options = self._random.choice((MQGMO.WAIT, MQGMO.WAIT, WAIT_IN_UNIT, WAIT_TO_BROWSE))
        gmo = GetMessageOptions(options=options.value, wait_interval=-1, match_options=MQMO.NONE.value)
        max_length = self._random.choice((None, None, 5))
        alone = self._random.random() < 0.7
        # One message: how many more a batch finds beside it depends on how far their puts have come by then.
        getting = queue.get(None, gmo, max_length=max_length) if alone else queue.get_many(1, options=gmo)
        task: asyncio.Task[object] = asyncio.create_task(getting)
        self._waiting.append((next(self._numbers), task))
        await asyncio.sleep(0)
        if self._random.random() < 0.3:
            return None
        md = self._random.choice(self._descriptors[1 - program])
        meeting = self._queues[1 - program][number].put(self._data(), md)
        return self._reported(*await asyncio.gather(meeting, return_exceptions=True))

    async def _alter(self) -> object:
        (reply,) = await self._observer.mqsc(self._random.choice(ALTERATIONS))
        return reply.code

    async def _pass_time(self) -> object:
        await self._clock.advance(self._random.choice((0.004, 1.0, 2.5)))
        return None

    async def _reopen(self) -> object:
        program, number = self._random.randrange(2), self._random.randrange(len(NAMES))
        reason = await self._queues[program][number].close()
        self._queues[program][number] = await _opened(self._connections[program], NAMES[number])
        return reason

    async def _cancel(self) -> object:
        if self._waiting:
            self._waiting[self._random.randrange(len(self._waiting))][1].cancel()
        return None

    async def _drain(self) -> object:
        """Empty the queue that triggers by its first message, so that there can be another first one."""
        async with self._observer.open("FIRST", MQOO.INPUT_SHARED) as queue:
            try:
                return self._reported(await queue.get_many(100))
            except MQError as error:
                return error.reason

    async def _look(self, *, whole: bool) -> None:
        """Note what everybody can see now: who has stopped waiting, how the queues stand, and all that is on them."""
        for number, task in [each for each in self._waiting if each[1].done()]:
            self.seen.append(
                (number, "cancelled" if task.cancelled() else self._reported(task.exception() or task.result()))
            )
        self._waiting = [each for each in self._waiting if not each[1].done()]
        core = self._manager.core
        core.check_invariants()
        for name in LOCAL:
            queue = core.objects.queues[name]
            self.seen.append((name, queue.depth, queue.uncommitted, queue.pending_starts, queue.waiters.count))
            self.seen.append({count: getattr(queue.counts, count) for count in QueueCounts.__slots__})
            if whole:
                self.seen.append([self._reported(each) for each in await self._browsed(name)])

    async def _browsed(self, name: str) -> list[Message | MQError]:
        messages: list[Message | MQError] = []
        async with self._observer.open(name, MQOO.BROWSE) as browsing:
            try:
                while True:
                    messages += await browsing.get_many(256, options=MQGMO.BROWSE_NEXT)
            except MQError as error:
                return [*messages, error]

    def _data(self) -> bytes:
        number = next(self._numbers)
        return b"%d" % number + b"." * self._random.choice((0, 0, 0, 30, 70))

    def _reported(self, outcome: object) -> object:
        """An outcome in values that are equal when nobody can tell the outcomes apart."""
        match outcome:
            case list():
                return [self._reported(each) for each in outcome]
            case MQError():
                results = getattr(outcome, "results", ())
                return (
                    outcome.reason,
                    outcome.completion,
                    self._reported(outcome.message),
                    self._reported(list(results)),
                )
            case BaseException():
                raise outcome
            case Message():
                return "message", outcome.data, outcome.length, outcome.reason, self._fields(outcome)
            case PutResult():
                return "put", outcome.reason, self._fields(outcome)
            case _:
                return outcome

    def _fields(self, outcome: Message | PutResult) -> tuple[object, ...]:
        md = outcome.md
        return tuple(
            self._names.setdefault(value, f"id {len(self._names)}") if isinstance(value, bytes) else value
            for value in (getattr(md, name) for name in md.__slots__)
        )


async def _opened(connection: Connection, name: str) -> Queue:
    options = MQOO.OUTPUT
    if name in SERVED:
        options |= MQOO.INPUT_SHARED | MQOO.BROWSE
    return await connection.open(name, options)


async def _one_after_the_other(
    puts: list[tuple[Queue, bytes, MessageDescriptor | None, PutMessageOptions]],
) -> list[PutResult | MQError]:
    """Puts that do not wait for one another; the next one is made whatever became of the last."""
    found = await asyncio.gather(
        *(queue.put(data, md, options) for queue, data, md, options in puts), return_exceptions=True
    )
    return [each if isinstance(each, MQError) else _raised(each) for each in found]


def _raised(outcome: PutResult | BaseException) -> PutResult:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


async def seen(seed: int) -> list[object]:
    """Return what the programs of a seed see."""
    clock = VirtualClock()
    opened = QueueManager.open(name="QM1", defaults="mq", store=MemoryStore(), clock=clock)
    opened.random_bits = lambda bits: 0  # identifiers stand in the data of transmitted messages
    async with opened as manager:
        programs = Programs(manager, clock, seed)
        await programs.run()
        return programs.seen


def take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch all short cuts off."""
    monkeypatch.setattr(placing, "template_of", lambda *_: None)
    monkeypatch.setattr(Objects, "known_route", lambda *_: None)
    monkeypatch.setattr(getting, "remembered", lambda *_: None)
    monkeypatch.setattr(batches, "put_run", lambda *_: [])
    monkeypatch.setattr(batches, "get_run", lambda *_: ([], None))
    monkeypatch.setattr(handoff, "awaited", lambda *_: False)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_short_cuts_come_to_what_the_long_way_comes_to(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short = await seen(seed)
    take_the_long_way(monkeypatch)
    long = await seen(seed)
    for number, (one, other) in enumerate(zip(short, long, strict=True)):
        assert one == other, f"seed {seed}, entry {number}, after {short[max(0, number - 7) : number]}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + MORE_SEEDS, 100))
async def test_short_cuts_come_to_what_the_long_way_comes_to_at_length(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + 100):
        with monkeypatch.context() as patched:
            await test_short_cuts_come_to_what_the_long_way_comes_to(seed, patched)


async def test_the_short_cuts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison compares something: the random calls come by each of the short cuts."""
    taken: dict[str, int] = {}

    def counted(place: object, name: str, came: Callable[[object], bool]) -> None:
        original = getattr(place, name)

        def counting(*arguments: object) -> object:
            outcome = original(*arguments)
            taken[name] = taken.get(name, 0) + came(outcome)
            return outcome

        monkeypatch.setattr(place, name, counting)

    counted(placing, "template_of", bool)
    counted(Objects, "known_route", bool)
    counted(getting, "remembered", bool)
    counted(batches, "put_run", bool)
    counted(batches, "get_run", lambda outcome: bool(outcome[0]))  # type: ignore[index]
    counted(handoff, "awaited", bool)
    for seed in range(30):
        await seen(seed)
    assert len(taken) == 6
    assert min(taken.values()) > 20, taken
