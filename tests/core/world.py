"""A queue manager in the hand of a test: the pure core, driven in plain calls, at a time that the test sets.

What the engine does around the core is done here at once: a unit of work is frozen, its rows go into a dictionary, and
it settles, all within the call. Under `World.hold` frozen units stay on their way until the test releases them. There
is no loop, no clock and no store.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.commands.table.attributes import altered, create
from broker.core.calls import postponing
from broker.core.calls.puts.put import Put
from broker.core.calls.puts.sending import publish, trigger, write_off
from broker.core.manager import Manager
from broker.core.message.entry import Entry
from broker.core.message.generated.generated import Lost
from broker.core.moment import Moment
from broker.core.names.definitions import Clear, Define, Definition, Delete
from broker.core.queues.effects import Effects, Grant
from broker.core.queues.handles import Handle, Hconn
from broker.core.queues.shelf.views import Search
from broker.mqi import (
    MQGMO,
    MQMO,
    MQOO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    PutMessageOptions,
)
from tests.core.fake_store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.core.message.rows import Rows
    from broker.core.names.definitions import Change
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter

START_TIME = 1_700_000_000.0
ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE
BOTH_IDS = MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID


def name_of(text: str) -> bytes:
    """A 24-byte identifier that shows `text`."""
    return text.encode().ljust(24, b".")


@contextmanager
def fails(reason: MQRC) -> Iterator[None]:
    """The call inside raises this reason."""
    with pytest.raises(MQError) as caught:
        yield
    assert caught.value.reason == reason


class Placed(NamedTuple):
    """The result of a put."""

    entry: Entry
    reason: int


class Message(NamedTuple):
    """The result of a get. `data` is whole, however short the buffer; the engine cuts it."""

    data: bytes
    reason: int
    entry: Entry


@dataclass(eq=False)
class Wait:
    """A get that waits: until `message` is there, or `ended` says why there is none."""

    message: Message | None = None
    ended: MQRC | None = None
    waiter: Waiter | None = None

    @property
    def waits(self) -> bool:
        return self.message is None and self.ended is None


class Frozen(NamedTuple):
    """A unit on its way to be durable."""

    unit: Unit
    rows: Rows
    committed: bool


@dataclass
class World:
    """A queue manager, what it has written, and the time."""

    now: float = START_TIME
    tick: float = 0.0
    store: FakeStore = field(default_factory=FakeStore)
    journal: deque[Frozen] = field(default_factory=deque)
    held: bool = False
    lost: list[Lost] = field(default_factory=list)  # what could not be put, and why
    meanwhile: Callable[[], None] | None = None  # what others do between the steps of a get's search

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        definition = create("QMGR", "QM1", datetime.fromtimestamp(self.now, UTC))
        self.manager = Manager(definition, self.now, self.store.high_water)
        for row in self.store.objects.values():
            self.manager.load_object(row)
        queues = {queue.number: queue for queue in self.manager.objects.queues.values()}
        for message in self.store.load():
            queues[message.queue].load([Entry.from_row(queues[message.queue], message)])
        self.manager.start_triggers(self.tick)
        self.perform()

    def restart(self) -> None:
        """The queue manager fails and starts again: what is in the store is all there is. Handles and queues of before
        are dead.
        """
        self.journal.clear()
        self._start()

    @property
    def moment(self) -> Moment:
        """The current time."""
        return Moment(self.now, self.tick)

    def pass_time(self, seconds: float) -> None:
        """Let both clocks run."""
        self.now += seconds
        self.tick += seconds

    # Definitions

    def define(self, name: str = "Q", /, **attributes: int | str) -> LocalQueue:
        """DEFINE QLOCAL, with MQ's numbers for values: PUT=1 is PUT(DISABLED)."""
        self._change(Define(create("QLOCAL", name, datetime.fromtimestamp(self.now, UTC), **attributes)))
        return self.manager.objects.queues[name]

    def define_process(self, name: str = "P", /, **attributes: int | str) -> None:
        """DEFINE PROCESS."""
        self._change(Define(create("PROCESS", name, datetime.fromtimestamp(self.now, UTC), **attributes)))

    def alter(self, name: str = "Q", /, **attributes: int | str) -> None:
        """ALTER QLOCAL."""
        self._change(Define(self._altered(self.manager.objects.definitions["QUEUE", name], attributes)))

    def define_alias(self, name: str, /, **attributes: int | str) -> None:
        """DEFINE QALIAS."""
        self._change(Define(create("QALIAS", name, datetime.fromtimestamp(self.now, UTC), **attributes)))

    def freeze_alter(self, name: str = "Q", /, **attributes: int | str) -> Callable[[], None]:
        """ALTER QLOCAL that is on its way to the store: what is called when it is there."""
        definition = self.manager.objects.definitions["QUEUE", name]
        change, rows = self.manager.freeze(Define(self._altered(definition, attributes)))
        self.write(rows)

        def durable() -> None:
            self.manager.apply(change, self.tick)
            self.perform()

        return durable

    def alter_manager(self, **attributes: int | str) -> None:
        """ALTER QMGR."""
        self._change(Define(self._altered(self.manager.objects.definition, attributes)))

    def delete(self, name: str = "Q", space: str = "QUEUE") -> None:
        """DELETE QLOCAL, or PROCESS."""
        self._change(Delete(space, name))

    def clear(self, name: str = "Q") -> None:
        """CLEAR QLOCAL."""
        queue = self.manager.objects.queues[name]
        while queue.shelf.available:
            self.end_unit(self.manager.clear(queue, 2), commit=True)
        self._change(Clear(name))

    def _altered(self, definition: Definition, attributes: dict[str, int | str]) -> Definition:
        return altered(definition, attributes, datetime.fromtimestamp(self.now, UTC))

    def _change(self, change: Change) -> None:
        if not isinstance(change, Clear):
            change, rows = self.manager.freeze(change)
            self.write(rows)
        self.manager.apply(change, self.tick)
        self.perform()

    # Programs

    def connect(self, appl_name: str = "") -> Program:
        """MQCONN."""
        return Program(self, Hconn(appl_name))

    def open(self, name: str = "Q", options: int = ALL, selection: str = "") -> Access:
        """A program of its own with one queue open, perhaps with a selector."""
        return self.connect().open(name, options, selection)

    # What the engine does

    def open_object(self, hconn: Hconn, od: ObjectDescriptor, options: int) -> Handle:
        """MQOPEN."""
        handle = self.manager.open(hconn, od, options, self.tick)
        self.perform()
        return handle

    def get(
        self, handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
    ) -> Grant | Request:
        """MQGET, all that must be done first done at once."""
        _, queue = handle.hconn.queue(handle.hobj)
        while True:
            found = self.manager.get(handle, queue, md, gmo, max_length, self.now)
            if not isinstance(found, Search):
                return found
            for _ in found.steps:
                self.perform()
                if self.meanwhile is not None:
                    self.meanwhile()

    def end_unit(self, unit: Unit, *, commit: bool) -> None:
        """Freeze a unit, and settle it unless units are held."""
        rows = self.manager.commit(unit, self.moment) if commit else self.manager.backout(unit)
        self.journal.append(Frozen(unit, rows, commit))
        if not self.held:
            self.settle()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Units frozen inside settle when this is left, or one by one with `settle_next`."""
        self.held = True
        try:
            yield
        finally:
            self.held = False
        self.settle()

    def settle(self) -> None:
        """Settle all frozen units, in their order."""
        while self.journal:
            self.settle_next()

    def settle_next(self, *, written: bool = True) -> None:
        """The first frozen unit is durable and takes effect; not `written`: the store was full."""
        unit, rows, committed = self.journal.popleft()
        if written:
            self.write(rows)
        self.manager.settle(unit, committed=committed and written, now=self.now)
        self.perform()

    def write(self, rows: Rows) -> None:
        """Make rows durable, and the mark of the identifiers with them."""
        if rows:
            rows.high_water = self.manager.ids.reserve()
            self.store.write(rows)

    def perform(self) -> None:
        """Carry out what the steps have let happen, as the engine does; `lost` gathers what could not be put."""
        while self.manager.effects:
            effects = self.manager.drain(self.now)
            self.serve(effects)
            postponing.keep(self.manager, effects.postponed, self.moment)
            self.lost += effects.lost
            if effects.expired:
                self._put(*write_off(self.manager, effects.expired, self.moment))
            if effects.triggered:
                self._put(*trigger(self.manager, effects.triggered, self.moment))
            if effects.generated:
                self._put(*publish(self.manager, effects.generated, self.moment))
        while not self.held and self.manager.triggers.switched_off:
            queue = self.manager.triggers.switched_off.pop()
            self._change(Define(queue.definition))

    def _put(self, unit: Unit, rows: Rows) -> None:
        """Write what the queue manager itself puts, and let it take effect."""
        self.write(rows)
        self.manager.settle(unit, committed=True, now=self.now)

    def serve(self, effects: Effects) -> None:
        """Bring the effects of a step to the waits they are for."""
        for waiter, grant in effects.grants:
            waiter.owner.message = self.granted(grant)
        for waiter, reason in effects.ended:
            waiter.owner.ended = MQRC(reason)

    def granted(self, grant: Grant) -> Message:
        """The message of a grant, its removal settled."""
        assert grant.entries[0].data is not None
        if grant.unit is not None:
            self.end_unit(grant.unit, commit=True)
        return Message(grant.entries[0].data, grant.reason, grant.entries[0])


class Program:
    """A connection."""

    def __init__(self, world: World, hconn: Hconn) -> None:
        self.world = world
        self.hconn = hconn

    def open(self, name: str = "Q", options: int = ALL, selection: str = "") -> Access:
        """MQOPEN of a queue, perhaps with a selector."""
        od = ObjectDescriptor(object_name=name, selection_string=selection)
        return Access(self, self.world.open_object(self.hconn, od, int(options)))

    def open_at(self, name: str, q_mgr_name: str, options: int = MQOO.OUTPUT) -> Access:
        """MQOPEN of a queue of another queue manager."""
        od = ObjectDescriptor(object_name=name, object_q_mgr_name=q_mgr_name)
        return Access(self, self.world.open_object(self.hconn, od, int(options)))

    def commit(self) -> None:
        """MQCMIT."""
        self._end(commit=True)

    def backout(self) -> None:
        """MQBACK."""
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        unit, self.hconn.unit = self.hconn.unit, None
        if unit is not None:
            self.world.end_unit(unit, commit=commit)


class Access:
    """An open queue."""

    def __init__(self, program: Program, handle: Handle) -> None:
        self.program = program
        self.world = program.world
        self.handle = handle

    @property
    def queue(self) -> LocalQueue:
        """The queue; raises Q_DELETED (2052), HOBJ_ERROR (2019)."""
        return self.program.hconn.queue(self.handle.hobj)[1]

    def put_of(self, md: MessageDescriptor | None, pmo: PutMessageOptions, data: bytes) -> Put:
        """The put that these arguments make; raises what `queue` does, and NOT_OPEN_FOR_OUTPUT (2039)."""
        handle = self.program.hconn.handle(self.handle.hobj)
        return Put(self.program.hconn, handle, handle.output_route(), md, pmo, data)

    def put(self, data: bytes = b"", options: int = 0, md: MessageDescriptor | None = None) -> Placed:
        """MQPUT."""
        world = self.world
        pmo = PutMessageOptions(options=int(options))
        try:
            entry, unit, reason = world.manager.put(self.put_of(md, pmo, data), world.moment)
        finally:
            world.perform()
        if unit is not None:
            world.end_unit(unit, commit=True)
        return Placed(entry, reason)

    def get(
        self,
        options: int = 0,
        md: MessageDescriptor | None = None,
        *,
        match: int = BOTH_IDS,
        max_length: int | None = None,
        version: int = 4,
        token: bytes = bytes(16),
        wait_interval: int = 0,
    ) -> Message:
        """MQGET that finds something at once; with WAIT it must not come to waiting."""
        gmo = GetMessageOptions(
            options=int(options), match_options=match, msg_token=token, wait_interval=wait_interval, version=version
        )
        found = self._get(md, gmo, max_length)
        assert isinstance(found, Message), "the get waits"
        return found

    def wait(
        self,
        options: int = 0,
        md: MessageDescriptor | None = None,
        *,
        match: int = BOTH_IDS,
        max_length: int | None = None,
        token: bytes = bytes(16),
        wait_interval: int = -1,
    ) -> Wait:
        """MQGET with WAIT, for ever unless said otherwise."""
        options |= MQGMO.WAIT
        gmo = GetMessageOptions(options=int(options), match_options=match, msg_token=token, wait_interval=wait_interval)
        found = self._get(md, gmo, max_length)
        return found if isinstance(found, Wait) else Wait(found)

    def _get(self, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None) -> Message | Wait:
        world = self.world
        try:
            found = world.get(self.handle, md, gmo, max_length)
        finally:
            world.perform()
        if isinstance(found, Grant):
            return world.granted(found)
        wait = Wait()
        wait.waiter = world.manager.wait(self.handle, self.queue, found, wait)
        return wait

    def time_out(self, wait: Wait) -> None:
        """The interval of a wait is over."""
        assert wait.waiter is not None
        self.world.manager.stop_waiting(wait.waiter)
        wait.ended = MQRC.NO_MSG_AVAILABLE

    def close(self) -> None:
        """MQCLOSE."""
        world = self.world
        world.manager.close(self.program.hconn, self.handle.hobj, world.tick)
        world.perform()

    def drain(self, options: int = 0) -> list[bytes]:
        """Every message that gets bring, until NO_MSG_AVAILABLE (2033)."""
        brought: list[bytes] = []
        while True:
            try:
                brought.append(self.get(options).data)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return brought

    def put_all(self, bodies: Iterable[bytes], options: int = 0) -> None:
        """A put of each."""
        for data in bodies:
            self.put(data, options)
