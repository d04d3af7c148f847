"""A queue manager and its model, side by side: each call is made to both, and must have the same outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.calls.expiring import expire
from broker.core.message.entry import STATE_NAMES
from broker.mqi import MQGMO, MQPMO, MessageDescriptor, MQError
from broker.mqi.structures import NO_ID
from tests.core.model import GOT, Model, ModelAccess, ModelMessage, ModelProgram, ModelQueue, Outcome, Wanted
from tests.core.world import Access, Wait, World, name_of

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from tests.core.model import ModelWait

MAX_CALLS = 5
QUEUES = {"Q": {"MSGDLVSQ": 0, "MAXDEPTH": 12}, "F": {"MSGDLVSQ": 1, "MAXDEPTH": 6}}
TRIGGERED: dict[str, int | str] = {"TRIGGER": 1, "TRIGTYPE": 2, "PROCESS": "P"}
SLOTS = ((0, "Q"), (0, "Q"), (0, "F"), (1, "Q"), (1, "F"))
"""Two programs and the queues they open, one of them twice."""


class Description(NamedTuple):
    """The descriptor of a put."""

    priority: int = 0
    persistent: bool = False
    expiry: int = -1
    msg_id: str = ""
    correl_id: str = ""


class Way(NamedTuple):
    """A way to get a message, and what it means."""

    options: int
    browse: bool = False
    syncpoint: str = ""
    after_cursor: bool = False
    under_cursor: bool = False


WAYS = (
    Way(0),
    Way(MQGMO.SYNCPOINT, syncpoint="always"),
    Way(MQGMO.SYNCPOINT_IF_PERSISTENT, syncpoint="if persistent"),
    Way(MQGMO.BROWSE_FIRST, browse=True),
    Way(MQGMO.BROWSE_NEXT, browse=True, after_cursor=True),
    Way(MQGMO.BROWSE_MSG_UNDER_CURSOR, browse=True, under_cursor=True),
    Way(MQGMO.MSG_UNDER_CURSOR, under_cursor=True),
    Way(MQGMO.MSG_UNDER_CURSOR | MQGMO.SYNCPOINT, syncpoint="always", under_cursor=True),
)
WAYS_TO_WAIT = tuple(way for way in WAYS if not way.under_cursor)


class Slot(NamedTuple):
    """A handle, and what the model has for it."""

    access: Access
    model: ModelAccess


class Known(NamedTuple):
    """A message, and the model's."""

    entry: Entry
    model: ModelMessage


class Twins:
    """Two programs on two queues, twice."""

    def __init__(self) -> None:
        self.world = World()
        self.world.alter_manager(MAXUMSGS=MAX_CALLS)
        self.world.define_process("P")
        self.model = Model(MAX_CALLS)
        self.model.now = self.world.now
        for name, attributes in QUEUES.items():
            self.world.define(name, **attributes, **TRIGGERED)
            self.model.queues[name] = ModelQueue(attributes["MAXDEPTH"], bool(attributes["MSGDLVSQ"]))
        self.number = 10_000  # of the last message put; no number is to equal a reason
        self.messages: dict[int, Known] = {}
        self.waits: list[tuple[Wait, ModelWait]] = []
        self._connect()

    def _connect(self) -> None:
        self.programs = [(self.world.connect(), ModelProgram()) for _ in range(2)]
        self.slots: dict[int, Slot] = {}

    def slot(self, index: int) -> Slot:
        """The open handle; opened if it is not."""
        if index not in self.slots:
            number, name = SLOTS[index]
            program, model = self.programs[number]
            self.slots[index] = Slot(program.open(name), ModelAccess(model, self.model.queues[name]))
        return self.slots[index]

    # Messages

    def put(self, index: int, description: Description, *, syncpoint: bool) -> None:
        """A put; the number of the message is its data."""
        access, model = self.slot(index)
        self.number += 1
        message = self._model_message(model.queue, description)
        md = _md(description.msg_id, description.correl_id)
        md.priority, md.persistence, md.expiry = description.priority, int(description.persistent), description.expiry
        expected = self.model.put(model, message, syncpoint=syncpoint)
        try:
            placed = access.put(b"%d" % self.number, MQPMO.SYNCPOINT if syncpoint else 0, md)
        except MQError as error:
            assert error.reason == expected
        else:
            assert expected is None
            self.messages[self.number] = Known(placed.entry, message)

    def _model_message(self, queue: ModelQueue, description: Description) -> ModelMessage:
        return ModelMessage(
            self.number,
            queue,
            queue.default_priority if queue.fifo else description.priority,
            description.persistent,
            self.model.now + description.expiry / 10 if description.expiry > 0 else None,
            description.msg_id,
            description.correl_id,
        )

    def get(self, index: int, way: Way, msg_id: str = "", correl_id: str = "") -> None:
        """A get or browse that does not wait."""
        access, model = self.slot(index)
        wanted = Wanted(msg_id, correl_id, browse=way.browse, syncpoint=way.syncpoint)
        if way.under_cursor:
            expected = self.model.get_under_cursor(model, wanted)
        else:
            expected = self.model.get(model, wanted, after_cursor=way.after_cursor)
        try:
            actual: Outcome = int(access.get(way.options, _md(msg_id, correl_id)).data)
        except MQError as error:
            actual = error.reason
        assert actual == expected

    def wait(self, index: int, way: Way, msg_id: str = "", correl_id: str = "") -> None:
        """A get or browse that waits if it must."""
        access, model = self.slot(index)
        wanted = Wanted(msg_id, correl_id, browse=way.browse, syncpoint=way.syncpoint)
        expected = self.model.wait(model, wanted, after_cursor=way.after_cursor)
        try:
            wait = access.wait(way.options, _md(msg_id, correl_id))
        except MQError as error:
            assert error.reason == expected.outcome
        else:
            self.waits.append((wait, expected))

    def time_out(self, number: int) -> None:
        """The interval of one of those that wait is over."""
        if self.waits:
            wait, expected = self.waits.pop(number % len(self.waits))
            expected.access.queue.waits.remove(expected)
            next(slot.access for slot in self.slots.values() if slot.model is expected.access).time_out(wait)

    # Units of work

    def end_unit(self, index: int, *, commit: bool) -> None:
        """A program commits or backs out."""
        program, model = self.programs[index]
        self.model.end_unit(model, commit=commit)
        if commit:
            program.commit()
        else:
            program.backout()

    def leave_unclaimed(self, index: int) -> None:
        """Nobody took what a program got last under syncpoint, or what anybody got last outside."""
        _, model = self.programs[index]
        if model.unit is not None and model.unit.gets:
            known = self.messages[model.unit.gets[-1].number]
            self.model.give_back(model, known.model)
            self.world.manager.give_back(known.entry, self.world.now)
            self.world.perform()
            return
        for known in reversed(self.messages.values()):
            if known.model.state == GOT and known.model not in known.model.queue.messages:
                self.model.put_again(known.model)
                unit = self.world.manager.put_again(known.entry)
                assert unit is not None
                self.world.end_unit(unit, commit=True)
                return

    def hold(self, *, held: bool) -> None:
        """Let frozen units gather, or settle them all."""
        self.world.held = self.model.held = held
        if not held:
            self.model.settle()
            self.world.settle()

    def settle_next(self, *, written: bool) -> None:
        """The first frozen unit is durable, or could not be written."""
        if self.model.journal:
            self.model.settle_next(written=written)
            self.world.settle_next(written=written)

    # The rest of life

    def pass_time(self, seconds: float, *, scan: bool) -> None:
        """Let time pass, and perhaps look for expired messages."""
        self.world.pass_time(seconds)
        self.model.now = self.world.now
        if scan:
            for name, queue in self.model.queues.items():
                self.model.expire(queue)
                expire(self.world.manager, self.world.manager.objects.queues[name], self.world.now)
            self.world.perform()

    def alter(self, name: str, *, get: bool, put: bool, fifo: bool, priority: int) -> None:
        """ALTER QLOCAL; `get` and `put` say whether these are enabled."""
        queue = self.model.queues[name]
        queue.fifo, queue.default_priority, queue.put_inhibited = fifo, priority, not put
        self.model.inhibit_gets(queue, inhibited=not get)
        self.world.alter(name, GET=int(not get), PUT=int(not put), MSGDLVSQ=int(fifo), DEFPRTY=priority)

    def close(self, index: int) -> None:
        """Close a handle, if it is open."""
        if index in self.slots:
            access, model = self.slots.pop(index)
            self.model.close(model)
            access.close()

    def restart(self) -> None:
        """The queue manager fails and starts again."""
        self.model.restart()
        self.world.restart()
        self.world.held = self.model.held = False
        self.waits.clear()
        queues = self.world.manager.objects.queues.values()
        entries = [entry for queue in queues for entry in queue.shelf.entries.values()]
        self.messages = {_number(entry): Known(entry, self.messages[_number(entry)].model) for entry in entries}
        self._connect()

    # What must be equal

    def check(self) -> None:
        """The queues and the waits are those of the model."""
        self.world.manager.check_invariants()
        for name, model in self.model.queues.items():
            queue = self.world.manager.objects.queues[name]
            assert [
                (_number(entry), STATE_NAMES[entry.state], entry.backout_count)
                for _, entry in sorted(queue.shelf.entries.items())
            ] == [(message.number, message.state, message.backouts) for message in model.in_order()]
            assert (queue.depth, queue.pending_starts) == (model.depth, model.starts)
        for wait, expected in self.waits:
            actual = int(wait.message.data) if wait.message else wait.ended
            assert actual == expected.outcome
        self.waits = [(wait, expected) for wait, expected in self.waits if wait.waits]
        assert sum(queue.waiters.count for queue in self.world.manager.objects.queues.values()) == len(self.waits)


def _number(entry: Entry) -> int:
    return int(entry.data or b"")


def _md(msg_id: str, correl_id: str) -> MessageDescriptor:
    return MessageDescriptor(
        msg_id=name_of(msg_id) if msg_id else NO_ID, correl_id=name_of(correl_id) if correl_id else NO_ID
    )
