"""The core against a model, from random calls: every result, every queue and every wait is the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from broker.core.entry import STATE_NAMES
from broker.mqi import MQGMO, MQPMO, MessageDescriptor, MQError
from broker.mqi.structures import NO_ID
from tests.core.model import Model, ModelAccess, ModelMessage, ModelProgram, ModelQueue, Outcome, Wanted
from tests.core.world import Access, Wait, World, name_of

if TYPE_CHECKING:
    from broker.core.entry import Entry
    from tests.core.model import ModelWait

MAX_CALLS = 5
QUEUES = {"Q": {"MSGDLVSQ": 0, "MAXDEPTH": 12}, "F": {"MSGDLVSQ": 1, "MAXDEPTH": 6}}
TRIGGERED = {"TRIGGER": 1, "TRIGTYPE": 2, "PROCESS": "P"}
SLOTS = ((0, "Q"), (0, "Q"), (0, "F"), (1, "Q"), (1, "F"))
"""Two programs and the queues they open, one of them twice."""


class Described(NamedTuple):
    """What a program puts."""

    priority: int
    persistent: bool
    expiry: int
    msg_id: str
    correl_id: str


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

slots = st.integers(0, len(SLOTS) - 1)
programs = st.integers(0, 1)
queue_names = st.sampled_from(sorted(QUEUES))
seldom = st.sampled_from([False] * 5 + [True])
wanted_ids = st.tuples(st.sampled_from(["", "", "", "M"]), st.sampled_from(["", "", "X", "Y"]))
descriptions = st.lists(
    st.builds(
        Described,
        priority=st.sampled_from([4, 0, 9]),
        persistent=st.booleans(),
        expiry=st.sampled_from([-1, -1, 10, 30]),
        msg_id=st.sampled_from(["", "M"]),
        correl_id=st.sampled_from(["", "X", "Y"]),
    ),
    min_size=1,
    max_size=3,
)


class Slot(NamedTuple):
    """A handle, and what the model has for it."""

    access: Access
    model: ModelAccess


class Got(NamedTuple):
    """A message that a program holds, and the model's."""

    entry: Entry
    model: ModelMessage


def identity(name: str) -> bytes:
    return name_of(name) if name else NO_ID


class Machine(RuleBasedStateMachine):
    """Two programs on two queues."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.alter_manager(MAXUMSGS=MAX_CALLS)
        self.world.define_process("P")
        self.model = Model(MAX_CALLS)
        self.model.now = self.world.now
        for name, attributes in QUEUES.items():
            self.world.define(name, **attributes, **TRIGGERED)
            self.model.queues[name] = ModelQueue(attributes["MAXDEPTH"], bool(attributes["MSGDLVSQ"]))
        self.number = 0
        self.messages: dict[int, Got] = {}
        self.waits: list[tuple[Wait, ModelWait]] = []
        self.connect()

    def connect(self) -> None:
        """Programs with nothing open and no unit of work."""
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

    @rule(index=slots, descriptions=descriptions, syncpoint=st.booleans())
    def put(self, index: int, descriptions: list[Described], syncpoint: bool) -> None:
        for described in descriptions:
            self.put_one(*self.slot(index), described, syncpoint=syncpoint)

    put_again = put

    def put_one(self, access: Access, model: ModelAccess, described: Described, *, syncpoint: bool) -> None:
        self.number += 1
        queue = model.queue
        message = ModelMessage(
            self.number,
            queue,
            queue.default_priority if queue.fifo else described.priority,
            described.persistent,
            self.model.now + described.expiry / 10 if described.expiry > 0 else None,
            described.msg_id,
            described.correl_id,
        )
        md = _md((described.msg_id, described.correl_id))
        md.priority, md.persistence, md.expiry = described.priority, int(described.persistent), described.expiry
        expected = self.model.put(model, message, syncpoint=syncpoint)
        try:
            placed = access.put(b"%d" % self.number, MQPMO.SYNCPOINT if syncpoint else 0, md)
        except MQError as error:
            assert error.reason == expected
        else:
            assert expected is None
            self.messages[self.number] = Got(placed.entry, message)

    @rule(index=slots, ids=wanted_ids, way=st.sampled_from(WAYS))
    def get(self, index: int, ids: tuple[str, str], way: Way) -> None:
        access, model = self.slot(index)
        wanted = Wanted(*ids, browse=way.browse, syncpoint=way.syncpoint)
        if way.under_cursor:
            expected = self.model.get_under_cursor(model, wanted)
        else:
            expected = self.model.get(model, wanted, after_cursor=way.after_cursor)
        try:
            actual: Outcome = int(access.get(way.options, _md(ids)).data)
        except MQError as error:
            actual = error.reason
        assert actual == expected

    get_again = get
    """Gets are tried as often as puts."""

    @rule(index=slots, ids=wanted_ids, way=st.sampled_from([way for way in WAYS if not way.under_cursor]))
    def wait(self, index: int, ids: tuple[str, str], way: Way) -> None:
        access, model = self.slot(index)
        wanted = Wanted(*ids, browse=way.browse, syncpoint=way.syncpoint)
        expected = self.model.wait(model, wanted, after_cursor=way.after_cursor)
        try:
            wait = access.wait(way.options, _md(ids))
        except MQError as error:
            assert error.reason == expected.outcome
        else:
            self.waits.append((wait, expected))

    @precondition(lambda self: self.waits)
    @rule(data=st.data())
    def time_out(self, data: st.DataObject) -> None:
        wait, expected = data.draw(st.sampled_from(self.waits))
        self.waits.remove((wait, expected))
        expected.access.queue.waits.remove(expected)
        access = next(slot.access for slot in self.slots.values() if slot.model is expected.access)
        access.time_out(wait)

    # Units of work

    @rule(index=programs, commit=st.booleans())
    def end_unit(self, index: int, commit: bool) -> None:
        program, model = self.programs[index]
        self.model.end_unit(model, commit=commit)
        if commit:
            program.commit()
        else:
            program.backout()

    @rule(index=programs)
    def nobody_took_the_last_message_of_the_unit(self, index: int) -> None:
        _, model = self.programs[index]
        if model.unit is not None and model.unit.gets:
            got = self.messages[model.unit.gets[-1].number]
            self.model.give_back(model, got.model)
            self.world.perform(self.world.manager.give_back(got.entry, self.world.now))

    @precondition(lambda self: any(_gone(got.model) for got in self.messages.values()))
    @rule()
    def nobody_took_the_last_message_that_went(self) -> None:
        got = next(got for got in reversed(self.messages.values()) if _gone(got.model))
        self.model.put_again(got.model)
        unit = self.world.manager.put_again(got.entry)
        assert unit is not None
        self.world.end_unit(unit, commit=True)

    @rule(held=seldom)
    def let_units_gather_or_settle(self, held: bool) -> None:
        self.world.held = self.model.held = held
        if not held:
            self.model.settle()
            self.world.settle()

    @precondition(lambda self: self.model.journal)
    @rule(written=st.booleans())
    def settle_the_next_unit(self, written: bool) -> None:
        self.model.settle_next(written=written)
        self.world.settle_next(written=written)

    # The rest of life

    @rule(tenths=st.sampled_from([1, 10, 20]), scan=st.booleans())
    def pass_time(self, tenths: int, scan: bool) -> None:
        self.world.pass_time(tenths / 10)
        self.model.now = self.world.now
        if scan:
            for name, queue in self.model.queues.items():
                self.model.expire(queue)
                self.world.manager.expire(self.world.manager.queues[name], self.world.now)
            self.world.forget_expired()

    @rule(name=queue_names, gets=seldom, puts=seldom, fifo=st.booleans(), priority=st.sampled_from([0, 5]))
    def alter(self, name: str, gets: bool, puts: bool, fifo: bool, priority: int) -> None:
        """`gets` and `puts`: whether they are inhibited."""
        queue = self.model.queues[name]
        queue.fifo, queue.default_priority, queue.put_inhibited = fifo, priority, puts
        self.model.inhibit_gets(queue, inhibited=gets)
        self.world.alter(name, GET=int(gets), PUT=int(puts), MSGDLVSQ=int(fifo), DEFPRTY=priority)

    @precondition(lambda self: self.slots)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        access, model = self.slots.pop(data.draw(st.sampled_from(sorted(self.slots))))
        self.model.close(model)
        access.close()

    @rule(really=seldom)
    def restart(self, really: bool) -> None:
        if not really:
            return
        self.model.restart()
        self.world.restart()
        self.world.held = self.model.held = False
        self.waits.clear()
        self.messages = {
            int(entry.data or b""): Got(entry, self.messages[int(entry.data or b"")].model)
            for queue in self.world.manager.queues.values()
            for entry in queue.entries.values()
        }
        self.connect()

    # What must be equal

    @invariant()
    def check_queues(self) -> None:
        self.world.manager.check_invariants()
        for name, model in self.model.queues.items():
            queue = self.world.manager.queues[name]
            assert [
                (int(entry.data or b""), STATE_NAMES[entry.state], entry.backout_count)
                for _, entry in sorted(queue.entries.items())
            ] == [(message.number, message.state, message.backouts) for message in model.in_order()]
            assert (queue.depth, queue.pending_starts) == (model.depth, model.starts)

    @invariant()
    def check_waits(self) -> None:
        for wait, expected in self.waits:
            actual = int(wait.message.data) if wait.message else wait.ended
            assert actual == expected.outcome
        self.waits = [(wait, expected) for wait, expected in self.waits if wait.waits]
        waiting = sum(queue.waiters.count for queue in self.world.manager.queues.values())
        assert waiting == len(self.waits)


def _md(ids: tuple[str, str]) -> MessageDescriptor:
    return MessageDescriptor(msg_id=identity(ids[0]), correl_id=identity(ids[1]))


def _gone(message: ModelMessage) -> bool:
    return message.state == "GET_PENDING" and message not in message.queue.messages


ORDINARY = settings(
    max_examples=250,
    stateful_step_count=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_the_core_does_what_the_model_does() -> None:
    run_state_machine_as_test(Machine, settings=ORDINARY)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_core_does_what_the_model_does_over_a_long_search() -> None:
    run_state_machine_as_test(
        Machine, settings=settings(ORDINARY, max_examples=5000, stateful_step_count=100, derandomize=False)
    )
