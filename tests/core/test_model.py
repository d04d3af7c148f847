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
from tests.core.world import Access, Message, Program, Wait, World, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.entry import Entry
    from tests.core.model import ModelWait

MAX_CALLS = 5
QUEUES = {"Q": {"MSGDLVSQ": 0, "MAXDEPTH": 12}, "F": {"MSGDLVSQ": 1, "MAXDEPTH": 6}}
TRIGGERED = {"TRIGGER": 1, "TRIGTYPE": 2, "PROCESS": "P"}
SLOTS = ((0, "Q"), (0, "Q"), (0, "F"), (1, "Q"), (1, "F"))
"""Two programs and the queues they open, one of them twice."""

SYNCPOINTS = {"": 0, "always": MQGMO.SYNCPOINT, "if persistent": MQGMO.SYNCPOINT_IF_PERSISTENT}

slots = st.integers(0, len(SLOTS) - 1)
programs = st.integers(0, 1)
queue_names = st.sampled_from(sorted(QUEUES))
correl_ids = st.sampled_from(["", "X", "Y"])
wanted_ids = st.tuples(st.sampled_from(["", "", "M"]), correl_ids)
syncpoints = st.sampled_from(sorted(SYNCPOINTS))


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


def outcome(call: Callable[[], Message]) -> Outcome:
    """What a get gives, as the model says it."""
    try:
        return int(call().data)
    except MQError as error:
        return error.reason


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

    @rule(
        index=slots,
        priority=st.sampled_from([0, 4, 4, 9]),
        persistent=st.booleans(),
        expiry=st.sampled_from([-1, -1, 10, 30]),
        msg_id=st.sampled_from(["", "M"]),
        correl_id=correl_ids,
        syncpoint=st.booleans(),
    )
    def put(
        self, index: int, priority: int, persistent: bool, expiry: int, msg_id: str, correl_id: str, syncpoint: bool
    ) -> None:
        access, model = self.slot(index)
        self.number += 1
        queue = model.queue
        message = ModelMessage(
            self.number,
            queue,
            queue.default_priority if queue.fifo else priority,
            persistent,
            self.model.now + expiry / 10 if expiry > 0 else None,
            msg_id,
            correl_id,
        )
        md = MessageDescriptor(
            priority=priority, persistence=int(persistent), expiry=expiry, msg_id=identity(msg_id),
            correl_id=identity(correl_id),
        )  # fmt: skip
        expected = self.model.put(model, message, syncpoint=syncpoint)
        try:
            placed = access.put(b"%d" % self.number, MQPMO.SYNCPOINT if syncpoint else 0, md)
        except MQError as error:
            assert error.reason == expected
        else:
            assert expected is None
            self.messages[self.number] = Got(placed.entry, message)

    @rule(index=slots, ids=wanted_ids, syncpoint=syncpoints)
    def get(self, index: int, ids: tuple[str, str], syncpoint: str) -> None:
        access, model = self.slot(index)
        expected = self.model.get(model, Wanted(*ids, syncpoint=syncpoint))
        assert outcome(lambda: access.get(SYNCPOINTS[syncpoint], _md(ids))) == expected

    @rule(index=slots, ids=wanted_ids, next_=st.booleans())
    def browse(self, index: int, ids: tuple[str, str], next_: bool) -> None:
        access, model = self.slot(index)
        expected = self.model.get(model, Wanted(*ids, browse=True), after_cursor=next_)
        assert outcome(lambda: access.get(_browse(next_), _md(ids))) == expected

    @rule(index=slots, syncpoint=syncpoints, browse=st.booleans())
    def get_under_cursor(self, index: int, syncpoint: str, browse: bool) -> None:
        access, model = self.slot(index)
        if browse:
            options, wanted = MQGMO.BROWSE_MSG_UNDER_CURSOR, Wanted(browse=True)
        else:
            options, wanted = MQGMO.MSG_UNDER_CURSOR | SYNCPOINTS[syncpoint], Wanted(syncpoint=syncpoint)
        expected = self.model.get_under_cursor(model, wanted)
        assert outcome(lambda: access.get(options)) == expected

    @rule(index=slots, ids=wanted_ids, syncpoint=syncpoints)
    def wait(self, index: int, ids: tuple[str, str], syncpoint: str) -> None:
        self.start_wait(index, SYNCPOINTS[syncpoint], Wanted(*ids, syncpoint=syncpoint))

    @rule(index=slots, ids=wanted_ids, next_=st.booleans())
    def wait_to_browse(self, index: int, ids: tuple[str, str], next_: bool) -> None:
        self.start_wait(index, _browse(next_), Wanted(*ids, browse=True), after_cursor=next_)

    def start_wait(self, index: int, options: int, wanted: Wanted, *, after_cursor: bool = False) -> None:
        access, model = self.slot(index)
        expected = self.model.wait(model, wanted, after_cursor=after_cursor)
        try:
            wait = access.wait(options, _md((wanted.msg_id, wanted.correl_id)))
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

    @rule(held=st.booleans())
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

    @rule(tenths=st.sampled_from([1, 5, 10, 20]))
    def pass_time(self, tenths: int) -> None:
        self.world.pass_time(tenths / 10)
        self.model.now = self.world.now

    @rule(name=queue_names)
    def scan_for_expired(self, name: str) -> None:
        self.model.expire(self.model.queues[name])
        self.world.manager.expire(self.world.manager.queues[name], self.world.now)
        self.world.forget_expired()

    @rule(name=queue_names, inhibited=st.booleans())
    def inhibit_gets(self, name: str, inhibited: bool) -> None:
        self.model.inhibit_gets(self.model.queues[name], inhibited=inhibited)
        self.world.alter(name, GET=int(inhibited))

    @rule(name=queue_names, inhibited=st.booleans())
    def inhibit_puts(self, name: str, inhibited: bool) -> None:
        self.model.queues[name].put_inhibited = inhibited
        self.world.alter(name, PUT=int(inhibited))

    @rule(name=queue_names, fifo=st.booleans(), priority=st.sampled_from([0, 5]))
    def change_the_delivery_sequence(self, name: str, fifo: bool, priority: int) -> None:
        queue = self.model.queues[name]
        queue.fifo, queue.default_priority = fifo, priority
        self.world.alter(name, MSGDLVSQ=int(fifo), DEFPRTY=priority)

    @precondition(lambda self: self.slots)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        access, model = self.slots.pop(data.draw(st.sampled_from(sorted(self.slots))))
        self.model.close(model)
        access.close()

    @rule()
    def restart(self) -> None:
        self.check_waits()
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


def _browse(next_: bool) -> MQGMO:
    return MQGMO.BROWSE_NEXT if next_ else MQGMO.BROWSE_FIRST


def _gone(message: ModelMessage) -> bool:
    return message.state == "GET_PENDING" and message not in message.queue.messages


ORDINARY = settings(
    max_examples=200,
    stateful_step_count=50,
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
