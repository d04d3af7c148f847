"""The intra-group queuing agent by itself: one queue manager in memory, whose transmission queue is its own
(queue-sharing 9.3, 9.6 to 9.8). What the other members and the database add is in `test_igq.py`.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

from broker import QueueManager
from broker.core.message.headers.transmission import destination_id
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.mqi import MQFB, MQFMT, MQGMO, MQMT, MQOO, MQPER, MQRC, MQRO, MessageDescriptor, MQError
from broker.mqi.layouts.layouts import MQDLH, MQXQH
from broker.sharing.igq import agent as agents
from broker.sharing.igq.agent import Agent
from broker.sharing.igq.carrier import BATCH, Carrier
from broker.sharing.igq.delivery import DestinationPuts
from broker.sharing.igq.retries import LONG_COUNT, Attempts
from broker.testing import VirtualClock, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Message
    from broker.core.message.generated.generated import GeneratedMessage
    from broker.core.queues.unit import Unit

ME = "QM2"
ALL = MQOO.INPUT_SHARED | MQOO.BROWSE | MQOO.OUTPUT | MQOO.INQUIRE


class Station:
    """A queue manager with its agent, entered with `async with`. `refused` makes connecting fail so many times, for
    `reason`.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager.open(name=ME, defaults="mq", clock=self.clock)
        self.refused = 0
        self.reason = MQRC.CONN_TAG_IN_USE
        self.agent: Agent
        self.connection: Connection
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.manager)
            self.agent = Agent(self.manager, self._connect)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self.agent.stop)
            self.connection = await stack.enter_async_context(self.manager.connect("test"))
            await self.mqsc(f"DEFINE QLOCAL({TRANSMISSION_QUEUE}) USAGE(XMITQ) MAXDEPTH(99999)\nDEFINE QLOCAL(Q)")
            tasks.start_soon(self.agent.run)
            await settle()
            stack.push_async_callback(self._stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _stop(self) -> None:
        self.agent.stop()
        await self.manager.quiesce(0)
        await settle()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Connection]:
        if self.refused:
            self.refused -= 1
            raise MQError(self.reason, "peers are at work")
        async with self.manager.connect("agent") as connection:
            yield connection

    async def mqsc(self, text: str) -> None:
        await self.connection.mqsc(text, check=True)
        await settle()

    async def alter(self, attributes: str) -> None:
        """ALTER the transmission queue, while it is open."""
        await self.mqsc(f"ALTER QLOCAL({TRANSMISSION_QUEUE}) FORCE {attributes}")

    async def fail_once(self) -> None:
        """The agent has to try again in a minute."""
        await self.alter("GET(DISABLED)")
        await self.alter("GET(ENABLED)")
        assert self.figures["state"] == "retrying"

    async def send(
        self, data: bytes = b"", *, q_name: str = "Q", persistence: int = MQPER.PERSISTENT, **fields: Any
    ) -> None:
        """A message for a queue of this queue manager waits on the transmission queue."""
        inner = MessageDescriptor(version=1, msg_id=b"M" * 24, persistence=persistence, priority=0, **fields)
        waiting = MessageDescriptor(
            correl_id=destination_id(ME), format=MQFMT.XMIT_Q_HEADER, persistence=persistence, expiry=inner.expiry
        )
        header = MQXQH(q_name, ME, inner)
        await self.connection.put1(TRANSMISSION_QUEUE, header.to_bytes() + data, waiting)
        await settle()

    async def taken(self, q_name: str) -> list[Message]:
        """Take from a queue what is there."""
        found = []
        async with self.connection.open(q_name, MQOO.INPUT_SHARED) as queue:
            try:
                while True:
                    found.append(await queue.get(options=MQGMO.NO_SYNCPOINT))
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
        return found

    async def data_on(self, q_name: str) -> list[bytes]:
        return [message.data for message in await self.taken(q_name)]

    @property
    def waiting(self) -> int:
        """The number of messages on the transmission queue."""
        return self.manager.core.objects.queues[TRANSMISSION_QUEUE].depth

    @property
    def figures(self) -> dict[str, int | str]:
        return self.agent.all_figures()


@pytest.fixture
async def station() -> AsyncIterator[Station]:
    async with Station() as station:
        yield station


def reported(caplog: pytest.LogCaptureFixture, code: str) -> int:
    """Return the number of lines of the log that begin with this code."""
    return sum(record.getMessage().startswith(code) for record in caplog.records)


# Delivery


async def test_a_message_arrives_as_it_was_put(station: Station) -> None:
    await station.send(
        b"hello",
        persistence=MQPER.NOT_PERSISTENT,
        correl_id=b"C" * 24,
        format="MQSTR",
        user_identifier="alice",
        put_appl_name="shop",
        put_date="20260102",
        put_time="03040506",
        reply_to_q="REPLIES",
        reply_to_q_mgr="QM1",
    )
    (message,) = await station.taken("Q")
    md = message.md
    assert (message.data, md.msg_id, md.correl_id, md.format) == (b"hello", b"M" * 24, b"C" * 24, "MQSTR")
    assert (md.user_identifier, md.put_appl_name, md.put_date, md.put_time) == ("alice", "shop", "20260102", "03040506")
    assert (md.reply_to_q, md.reply_to_q_mgr, md.persistence) == ("REPLIES", "QM1", MQPER.NOT_PERSISTENT)
    assert list(station.manager.conversations.units()) == []


async def test_the_time_that_a_message_has_waited_is_taken_off_its_life(station: Station) -> None:
    await station.alter("GET(DISABLED)")
    await station.send(b"short-lived", expiry=1000)
    await station.clock.advance(30)
    await station.alter("GET(ENABLED)")
    await station.clock.advance(60)
    (message,) = await station.taken("Q")
    assert message.md.expiry == 1000 - 900


async def test_messages_of_others_stay_where_they_are(station: Station) -> None:
    header = MQXQH("Q", "QM3", MessageDescriptor(version=1)).to_bytes()
    for correl_id in (destination_id("QM3"), bytes(24)):
        md = MessageDescriptor(correl_id=correl_id, format=MQFMT.XMIT_Q_HEADER)
        await station.connection.put1(TRANSMISSION_QUEUE, header, md)
    await settle()
    assert (station.waiting, await station.data_on("Q")) == (2, [])


async def test_s9_7_persistent_messages_are_committed_by_fifty_and_when_no_more_are_available(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    await station.fail_once()
    commit, commits = station.manager.core.commit, []

    def counted(unit: Unit, *arguments: Any) -> Any:
        if any(entry.queue.name == TRANSMISSION_QUEUE for entry in unit.gets):
            commits.append(len(unit.puts))
        return commit(unit, *arguments)

    monkeypatch.setattr(station.manager.core, "commit", counted)
    async with station.connection.unit_of_work():
        for number in range(120):
            await station.send(b"%d" % number)
    await station.clock.advance(60)
    assert commits == [50, 50, 20]
    assert station.figures["commits"] == 3
    assert await station.data_on("Q") == [b"%d" % number for number in range(120)]


async def test_a_batch_is_smaller_where_a_unit_of_work_may_be(station: Station) -> None:
    await station.mqsc("ALTER QMGR MAXUMSGS(8)")
    station.agent.stop()
    async with station.manager.connect() as connection:
        carrier = Carrier(station.manager, connection, Attempts(), station.agent.figures)
    assert carrier._batch == 2


# What cannot be delivered


@pytest.mark.parametrize("persistence", [MQPER.NOT_PERSISTENT, MQPER.PERSISTENT])
async def test_s9_5_an_undeliverable_message_is_on_the_dead_letter_queue(station: Station, persistence: int) -> None:
    await station.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    await station.send(b"hello", q_name="NOSUCH", persistence=persistence, format="MQSTR")
    (letter,) = await station.taken("SYSTEM.DEAD.LETTER.QUEUE")
    header = MQDLH.from_bytes(letter.data)
    assert (header.reason, header.dest_q_name, header.dest_q_mgr_name) == (2085, "NOSUCH", ME)
    assert (header.format, letter.md.format, letter.data[MQDLH.SIZE :]) == ("MQSTR", MQFMT.DEAD_LETTER_HEADER, b"hello")
    assert (letter.md.msg_id, letter.md.persistence, station.waiting) == (b"M" * 24, persistence, 0)


async def test_what_begins_with_no_header_is_a_dead_letter(station: Station) -> None:
    await station.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    await station.alter("USAGE(NORMAL)")
    await station.connection.put1(TRANSMISSION_QUEUE, b"junk", MessageDescriptor(correl_id=destination_id(ME)))
    await station.alter("USAGE(XMITQ)")
    await station.clock.advance(agents.RESTART_SECONDS)
    (letter,) = await station.taken("SYSTEM.DEAD.LETTER.QUEUE")
    assert MQDLH.from_bytes(letter.data).reason == MQRC.XQH_ERROR


async def test_s9_5_without_a_dead_letter_queue_a_nonpersistent_message_is_discarded(station: Station) -> None:
    await station.send(b"lost", q_name="NOSUCH", persistence=MQPER.NOT_PERSISTENT)
    await station.send(b"next", persistence=MQPER.NOT_PERSISTENT)
    assert await station.data_on("Q") == [b"next"]
    assert (station.waiting, station.figures["discarded"]) == (0, 1)


async def test_s9_5_without_a_dead_letter_queue_a_batch_with_such_a_persistent_message_is_tried_again(
    station: Station,
) -> None:
    await station.fail_once()
    await station.send(b"first")
    await station.send(b"second", q_name="NOSUCH")
    await station.send(b"third")
    await station.clock.advance(60)
    assert (station.waiting, station.figures["state"], station.figures["attempts"]) == (3, "retrying", 2)
    assert await station.data_on("Q") == []
    await station.mqsc("DEFINE QLOCAL(NOSUCH)")
    await station.clock.advance(60)
    assert await station.data_on("Q") == [b"first", b"third"]
    assert await station.data_on("NOSUCH") == [b"second"]
    assert (station.waiting, station.figures["attempts"]) == (0, 0)


async def test_a_persistent_message_that_has_to_wait_takes_no_other_with_it(station: Station) -> None:
    await station.fail_once()
    await station.send(b"first")
    await station.send(b"second", q_name="NOSUCH")
    await station.send(b"third")
    await station.send(b"nonpersistent", persistence=MQPER.NOT_PERSISTENT)
    await station.clock.advance(60)
    assert station.figures["state"] == "retrying"
    await station.mqsc("DEFINE QLOCAL(NOSUCH)")
    await station.clock.advance(60)
    assert {message.data for message in await station.taken("Q")} == {b"first", b"third", b"nonpersistent"}


async def test_discard_msg_is_honoured_before_the_dead_letter_queue(station: Station) -> None:
    await station.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    await station.send(b"x", q_name="NOSUCH", report=MQRO.DISCARD_MSG)
    assert (await station.data_on("SYSTEM.DEAD.LETTER.QUEUE"), station.figures["discarded"]) == ([], 1)


async def test_s9_6_an_exception_report_is_as_persistent_as_the_message_it_is_about(station: Station) -> None:
    await station.mqsc("DEFINE QLOCAL(REPLIES)\nALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    await station.send(b"hello", q_name="NOSUCH", report=MQRO.EXCEPTION, reply_to_q="REPLIES", reply_to_q_mgr=ME)
    (report,) = await station.taken("REPLIES")
    md = report.md
    assert (md.msg_type, md.feedback, md.persistence) == (MQMT.REPORT, MQRC.UNKNOWN_OBJECT_NAME, MQPER.PERSISTENT)
    assert (md.correl_id, report.data) == (b"M" * 24, b"")
    assert md.msg_id != b"M" * 24
    assert len(await station.taken("SYSTEM.DEAD.LETTER.QUEUE")) == 1


@pytest.mark.parametrize(
    ("report", "data"),
    [(MQRO.EXCEPTION_WITH_DATA, b"." * 100), (MQRO.EXCEPTION_WITH_FULL_DATA, b"." * 300)],
)
async def test_an_exception_report_carries_the_data_that_was_asked_for(
    station: Station, report: int, data: bytes
) -> None:
    await station.mqsc("DEFINE QLOCAL(REPLIES)")
    await station.send(
        b"." * 300,
        q_name="NOSUCH",
        report=report | MQRO.DISCARD_MSG | MQRO.PASS_MSG_ID | MQRO.PASS_CORREL_ID,
        reply_to_q="REPLIES",
        reply_to_q_mgr=ME,
        correl_id=b"C" * 24,
    )
    (found,) = await station.taken("REPLIES")
    assert (found.data, found.md.msg_id, found.md.correl_id) == (data, b"M" * 24, b"C" * 24)


async def test_a_report_that_cannot_be_put_is_a_dead_letter(station: Station) -> None:
    await station.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    await station.send(
        b"x", q_name="NOSUCH", report=MQRO.EXCEPTION | MQRO.DISCARD_MSG, reply_to_q="NOSUCH.EITHER", reply_to_q_mgr=ME
    )
    (letter,) = await station.taken("SYSTEM.DEAD.LETTER.QUEUE")
    assert MQDLH.from_bytes(letter.data).dest_q_name == "NOSUCH.EITHER"
    assert letter.md.feedback == MQRC.UNKNOWN_OBJECT_NAME


@pytest.mark.parametrize("persistence", [MQPER.NOT_PERSISTENT, MQPER.PERSISTENT])
async def test_a_report_that_can_be_put_nowhere_is_discarded_or_the_batch_is_backed_out(
    station: Station, persistence: int
) -> None:
    await station.send(
        b"x",
        q_name="NOSUCH",
        persistence=persistence,
        report=MQRO.EXCEPTION | MQRO.DISCARD_MSG,
        reply_to_q="NOSUCH.EITHER",
        reply_to_q_mgr=ME,
    )
    persistent = persistence == MQPER.PERSISTENT
    assert (station.waiting, station.figures["state"]) == ((1, "retrying") if persistent else (0, "working"))


async def test_no_report_is_made_where_none_was_asked_for(station: Station) -> None:
    await station.mqsc("DEFINE QLOCAL(REPLIES)")
    await station.send(b"x", q_name="NOSUCH", persistence=0, report=MQRO.COA, reply_to_q="REPLIES", reply_to_q_mgr=ME)
    assert await station.data_on("REPLIES") == []


async def test_a_message_that_arrives_is_confirmed_to_its_putter(station: Station) -> None:
    await station.mqsc("DEFINE QLOCAL(REPLIES)")
    await station.send(b"x", report=MQRO.COA, reply_to_q="REPLIES", reply_to_q_mgr=ME)
    assert [report.md.feedback for report in await station.taken("REPLIES")] == [MQFB.COA]


async def test_a_failure_that_is_no_fault_of_the_message_makes_no_dead_letter(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    await station.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    put = DestinationPuts._put

    async def failing(self: DestinationPuts, message: GeneratedMessage, syncpoint: int) -> None:
        if message.q_name == "Q":
            raise MQError(MQRC.CF_NOT_AVAILABLE, "the database is away")
        await put(self, message, syncpoint)

    monkeypatch.setattr(DestinationPuts, "_put", failing)
    await station.send(b"hello")
    assert (station.waiting, station.figures["state"]) == (1, "interrupted")
    monkeypatch.setattr(DestinationPuts, "_put", put)
    await station.clock.advance(agents.RESTART_SECONDS)
    assert await station.data_on("Q") == [b"hello"]
    assert await station.data_on("SYSTEM.DEAD.LETTER.QUEUE") == []


# Retries


def test_s9_4_it_is_tried_again_ten_times_after_a_minute_then_every_twenty_minutes() -> None:
    retries = Attempts()
    assert [retries.next() for _ in range(13)] == [60.0] * 10 + [1200.0] * 3
    retries.succeeded()
    assert retries.next() == 60.0
    retries.made = 10 + LONG_COUNT - 1
    assert (retries.next(), retries.next()) == (1200.0, None)


async def test_s9_4_an_inhibited_transmission_queue_is_tried_again_by_the_schedule(station: Station) -> None:
    await station.alter("GET(DISABLED)")
    assert (station.figures["state"], station.figures["attempts"]) == ("retrying", 1)
    await station.send(b"hello")
    for attempt in range(2, 11):
        await station.clock.advance(60)
        assert station.figures["attempts"] == attempt
    await station.clock.advance(60)
    assert station.figures["attempts"] == 11
    await station.clock.advance(1199)
    assert station.figures["attempts"] == 11
    await station.clock.advance(1)
    assert station.figures["attempts"] == 12
    await station.alter("GET(ENABLED)")
    await station.clock.advance(1199)
    assert station.waiting == 1
    await station.clock.advance(1)
    assert await station.data_on("Q") == [b"hello"]
    assert (station.figures["state"], station.figures["attempts"]) == ("working", 0)


async def test_success_with_nothing_to_do_begins_the_count_anew(station: Station) -> None:
    await station.fail_once()
    await station.clock.advance(60)
    assert (station.figures["state"], station.figures["attempts"]) == ("working", 0)


async def test_a_batch_that_is_committed_begins_the_count_anew(station: Station) -> None:
    await station.fail_once()
    async with station.connection.unit_of_work():
        for number in range(BATCH):
            await station.send(b"%d" % number)
        await station.send(b"undeliverable", q_name="NOSUCH")
    await station.clock.advance(60)
    assert (station.waiting, station.figures["state"], station.figures["attempts"]) == (1, "retrying", 1)


async def test_a_transmission_queue_with_wrong_attributes_is_tried_again(station: Station) -> None:
    await station.alter("USAGE(NORMAL)")
    await station.clock.advance(agents.RESTART_SECONDS)
    assert station.figures["state"] == "retrying"
    await station.alter("USAGE(XMITQ)")
    await station.send(b"hello")
    await station.clock.advance(59)
    assert station.waiting == 1
    await station.clock.advance(1)
    assert await station.data_on("Q") == [b"hello"]


async def test_a_transmission_queue_that_is_missing_is_tried_again(station: Station) -> None:
    await station.fail_once()
    await station.mqsc(f"DELETE QLOCAL({TRANSMISSION_QUEUE})")
    await station.clock.advance(60)
    assert (station.figures["state"], station.figures["attempts"]) == ("retrying", 2)
    await station.mqsc(f"DEFINE QLOCAL({TRANSMISSION_QUEUE}) USAGE(XMITQ)")
    await station.send(b"hello")
    await station.clock.advance(60)
    assert await station.data_on("Q") == [b"hello"]


async def test_a_transmission_queue_that_was_altered_is_opened_again_at_once(station: Station) -> None:
    await station.alter("USAGE(NORMAL)")
    await station.alter("USAGE(XMITQ)")
    await station.send(b"hello")
    await station.clock.advance(agents.RESTART_SECONDS)
    assert await station.data_on("Q") == [b"hello"]
    assert station.figures["attempts"] == 0


async def test_a_refused_connection_tag_is_tried_again(station: Station, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    station.refused = 3
    await station.fail_once()
    await station.send(b"hello")
    await station.clock.advance(3 * 60)
    assert (station.waiting, station.refused) == (1, 0)
    await station.clock.advance(60)
    assert await station.data_on("Q") == [b"hello"]
    assert "CONN_TAG_IN_USE" in caplog.text


@pytest.mark.parametrize(
    "reason",
    [MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE, MQRC.CONN_TAG_NOT_USABLE, MQRC.CONNECTION_BROKEN, MQRC.BACKED_OUT],
)
async def test_a_database_that_is_away_is_tried_each_second_and_does_not_count(
    station: Station, reason: MQRC, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    station.reason, station.refused = reason, 30
    await station.fail_once()
    await station.send(b"hello")
    await station.clock.advance(60)
    for left in range(29, -1, -1):
        assert (station.figures["state"], station.figures["attempts"], station.refused) == ("interrupted", 1, left)
        await station.clock.advance(agents.RESTART_SECONDS)
    assert reported(caplog, "intra-group queuing interrupted") == 1
    assert await station.data_on("Q") == [b"hello"]
    assert (station.figures["state"], station.figures["attempts"]) == ("working", 0)


async def test_after_the_last_attempt_the_agent_ends_until_the_queue_manager_is_altered(
    station: Station, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    station.agent._retries.made = 10 + LONG_COUNT - 1
    await station.alter("GET(DISABLED)")
    await station.send(b"hello")
    await station.clock.advance(1200)
    await station.alter("GET(ENABLED)")
    assert (station.figures["state"], reported(caplog, "CSQM051I"), station.waiting) == ("ended", 1, 1)
    station.agent.altered()  # with IGQ(DISABLED)
    await settle()
    assert station.figures["state"] == "ended"
    await station.mqsc("ALTER QMGR IGQ(ENABLED)")
    station.agent.altered()
    await settle()
    assert await station.data_on("Q") == [b"hello"]
    assert reported(caplog, "CSQM050I") == 1


# Mistakes


async def test_s9_9_an_agent_that_a_mistake_ends_begins_anew(
    station: Station, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    deliver, mistakes = DestinationPuts.deliver, iter([RuntimeError("injected")])

    async def mistaken(self: DestinationPuts, got: Message) -> None:
        for mistake in mistakes:
            raise mistake
        await deliver(self, got)

    monkeypatch.setattr(DestinationPuts, "deliver", mistaken)
    await station.clock.advance(10)
    await station.send(b"first")
    await station.send(b"second")
    assert await station.data_on("Q") == [b"first", b"second"]
    assert (reported(caplog, "CSQM067E"), reported(caplog, "CSQM051I")) == (1, 0)


async def test_an_agent_begins_anew_at_most_once_a_second(
    station: Station, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def mistaken(self: DestinationPuts, got: Message) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(DestinationPuts, "deliver", mistaken)
    await station.clock.advance(10)
    await station.send(b"poison")
    for _ in range(6):
        await station.clock.advance(0.5)
    assert reported(caplog, "CSQM067E") == 5  # at once, when it begins anew, and after each of three seconds
    assert station.waiting == 1


async def test_the_agent_says_when_it_starts_and_stops(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Station() as station:
        await station.send(b"hello")
    assert (reported(caplog, "CSQM050I"), reported(caplog, "CSQM051I"), reported(caplog, "CSQM067E")) == (1, 1, 0)
