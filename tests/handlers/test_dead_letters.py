"""Dead letters told, put back and discarded: handlers rule 7.5, over an embedded manager."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker.dead_letters import AUDIT_QUEUE, DeadLetter, DeadLetterQueue, Outcome, Wanted
from broker.mqi import MQFMT, MQGMO, MQMF, MQOO, MQPMO, MQRC, MQRFH2, MessageDescriptor, MQError
from broker.mqi.delivery_fields import Became, ServiceOptions
from broker.mqi.delivery_fields import Outcome as Handled
from broker.mqi.layouts.layouts import MQDLH
from tests.handlers.desk import TERMS, Desk, desk, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Message

ONCE = TERMS._replace(attempts=1)
HEADER = MQDLH(2053, "Q", "QM1", 546, 1208, "MQSTR", 0, "sender", "20260501", "12000050")
PLAIN = "DEFINE QLOCAL(PLAIN) DEFPSIST(YES)\nDEFINE QLOCAL(FOREIGN)\nALTER QLOCAL(DEAD) MAXMSGL(104857600)"


@asynccontextmanager
async def letters_on(d: Desk, queue: str = "DEAD") -> AsyncIterator[DeadLetterQueue]:
    async with d.manager.connect("evermq") as connection, DeadLetterQueue(connection, queue) as letters:
        yield letters


async def reported(d: Desk, wanted: Wanted = Wanted(), queue: str = "DEAD") -> list[DeadLetter]:  # noqa: B008
    async with letters_on(d, queue) as letters:
        return [letter async for letter in letters.browse(wanted)]


async def retried(d: Desk, wanted: Wanted = Wanted(), queue: str = "DEAD", **how: Any) -> list[Outcome]:  # noqa: B008
    async with letters_on(d, queue) as letters:
        return [outcome async for outcome in letters.retry(wanted, **how)]


async def purged(d: Desk, wanted: Wanted = Wanted()) -> list[Outcome]:  # noqa: B008
    async with letters_on(d) as letters:
        return [outcome async for outcome in letters.purge(wanted)]


async def fail(d: Desk, count: int = 1, terms: ServiceOptions = ONCE, outcome: Handled = Handled.FAILED) -> None:
    """Let messages on Q fail until they are dead letters."""
    async with d.worker(terms) as worker:
        for _ in range(count):
            (taken,) = await worker.take()
            (settled,) = await settle(worker, outcome, taken)
            assert settled.became == Became.DEAD


async def audited(d: Desk) -> list[dict[str, Any]]:
    return [json.loads(message.data) for message in await d.got(AUDIT_QUEUE)]


def ids(messages: list[Message]) -> list[bytes]:
    return [message.md.msg_id for message in messages]


async def test_h7_7_a_retried_message_is_handled_as_the_one_that_was_put_first() -> None:
    async with desk(PLAIN) as d:
        await d.put("work", properties={"colour": "red"})
        async with d.connection.open("Q", MQOO.BROWSE) as queue:
            first = (await queue.get(options=MQGMO.BROWSE_FIRST)).md
        await d.clock.advance(3600)
        await fail(d)
        assert await retried(d) == [Outcome((first.msg_id,), to="Q")]
        assert d.depth("DEAD") == 0
        async with d.worker(ONCE) as worker:
            (taken,) = await worker.take()
            (message,) = taken.messages
            md = message.md
            assert (taken.attempt, md.backout_count, message.data) == (1, 0, b"work")
            assert (md.msg_id, md.put_date, md.put_time) == (first.msg_id, first.put_date, first.put_time)
            assert (md.user_identifier, md.put_appl_name) == (first.user_identifier, first.put_appl_name)
            assert (md.format, md.persistence, md.expiry) == (first.format, first.persistence, first.expiry)
            assert dict(message.properties) == {"colour": "red", "evermq.replays": 1}
            await settle(worker, Handled.DONE, taken)
        (record,) = await audited(d)
        assert (record["event"], record["msg_id"]) == ("dead-letter-retried", first.msg_id.hex())
        assert (record["from"], record["to"], record["by"]) == ("DEAD", "Q", first.user_identifier)


async def test_a_letter_tells_what_has_happened_to_it() -> None:
    async with desk() as d:
        await d.put("work")
        await d.clock.advance(60)
        await fail(d)
        (letter,) = await reported(d)
        assert (letter.why, letter.q_name, letter.handler, letter.attempts) == ("failed", "Q", "tests:handler", 1)
        assert (letter.exception, letter.error, letter.traceback) == ("ValueError", "no such order", "Traceback ...")
        assert (letter.failed_at, letter.data, letter.length) == (d.clock.time(), b"work", 4)
        assert letter.header is not None
        assert letter.header.reason == MQRC.BACKOUT_THRESHOLD_REACHED
        assert (letter.foreign, letter.replays, letter.q_mgr_name) == (False, 0, "")


async def test_letters_are_told_by_what_is_asked_for() -> None:
    async with desk() as d:
        await d.put("a")
        await fail(d)
        await d.clock.advance(60)
        await d.put("b")
        await fail(d, terms=ONCE._replace(handler="shop:other"), outcome=Handled.REJECTED)
        first, second = await reported(d)
        for wanted, expected in (
            (Wanted(), [first, second]),
            (Wanted(why="REJECTED"), [second]),
            (Wanted(why="2362"), [first, second]),
            (Wanted(handler="shop:other"), [second]),
            (Wanted(handler="other"), [second]),
            (Wanted(handler="oth"), []),
            (Wanted(msg_ids=frozenset({first.md.msg_id})), [first]),
            (Wanted(since=second.failed_at), [second]),
            (Wanted(since=second.failed_at + 0.01), []),
            (Wanted(why="failed", since=second.failed_at), []),
        ):
            assert [each.md.msg_id for each in await reported(d, wanted)] == [each.md.msg_id for each in expected], (
                wanted
            )


@pytest.mark.parametrize("body", [b"", b"\x00\xff" * 50, b"x" * (4 * 1024 * 1024)])
async def test_h7_5_bodies_come_back_byte_for_byte(body: bytes) -> None:
    async with desk(PLAIN) as d:
        await d.put(body, md=MessageDescriptor(format="MYFORMAT", encoding=273, coded_char_set_id=500))
        await fail(d)
        assert d.depth("DEAD") == 1
        (outcome,) = await retried(d)
        assert not outcome.problem
        (message,) = await d.got()
        assert message.data == body
        assert (message.md.format, message.md.encoding, message.md.coded_char_set_id) == ("MYFORMAT", 273, 500)


async def test_expiry_goes_on_with_what_was_left_at_the_failure() -> None:
    async with desk() as d:
        await d.put("a", md=MessageDescriptor(expiry=600))
        await d.clock.advance(20)
        await fail(d)
        await d.clock.advance(3600)
        await retried(d)
        (message,) = await d.got()
        assert message.md.expiry == 400


async def test_folders_that_hold_other_than_properties_and_their_types_are_kept() -> None:
    async with desk() as d:
        folders = (
            "<usr><n dt='i2'>5</n></usr>",
            "<own content='properties'><x>1</x></own>",
            "<psc><Command>Go</Command></psc>",
        )
        header = MQRFH2(folders, "MQSTR", 546, 1208).to_bytes()
        async with d.connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(header + b"body", MessageDescriptor(format=MQFMT.RF_HEADER_2, encoding=546))
        await fail(d)
        await retried(d)
        async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
            message = await queue.get(options=MQGMO.PROPERTIES_FORCE_MQRFH2)
        outer, length = MQRFH2.from_bytes(message.data)
        texts = list(outer.folders)
        rest = message.data[length:]
        if outer.format == MQFMT.RF_HEADER_2:
            inner, length = MQRFH2.from_bytes(rest)
            texts += inner.folders
            rest = rest[length:]
        assert rest == b"body"
        assert sorted(texts) == sorted([*folders, *[each for each in texts if each.startswith("<evermq")]])


async def test_a_letter_without_header_on_the_queues_own_boqname_goes_back_too() -> None:
    async with desk("ALTER QLOCAL(Q) BOQNAME(DEAD)") as d:
        await d.put("a")
        await fail(d, terms=ONCE._replace(dead_letter=""))
        (letter,) = await reported(d)
        assert (letter.header, letter.q_name, letter.why, letter.foreign) == (None, "Q", "failed", False)
        assert [outcome.to for outcome in await retried(d)] == ["Q"]
        (message,) = await d.got()
        assert (message.data, message.md.format) == (b"a", "MQSTR")


async def put_group(d: Desk, count: int, queue: str = "Q") -> None:
    async with d.connection.open(queue, MQOO.OUTPUT) as out:
        for number in range(1, count + 1):
            flags = MQMF.LAST_MSG_IN_GROUP if number == count else MQMF.MSG_IN_GROUP
            await out.put(f"part {number}", MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)


async def test_a_group_goes_back_as_a_whole_in_its_order() -> None:
    async with desk() as d:
        await put_group(d, 3)
        await d.put("alone")
        await fail(d, 4, terms=ONCE)
        third = (await reported(d))[2]
        (outcome,) = await retried(d, Wanted(msg_ids=frozenset({third.md.msg_id})))
        assert (len(outcome.msg_ids), outcome.to) == (3, "Q")
        messages = await d.got()
        assert [(each.data, each.md.msg_seq_number, each.group_status.name) for each in messages] == [
            (b"part 1", 1, "MSG_IN_GROUP"),
            (b"part 2", 2, "MSG_IN_GROUP"),
            (b"part 3", 3, "LAST_MSG_IN_GROUP"),
        ]
        assert len({each.md.group_id for each in messages}) == 1
        assert len(await audited(d)) == 3


async def test_each_group_goes_by_itself() -> None:
    async with desk() as d:
        await put_group(d, 2)
        await put_group(d, 3)
        await fail(d, 5)
        await d.connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)", check=True)
        first, second = await retried(d)
        assert (len(first.msg_ids), first.problem, len(second.msg_ids)) == (2, "", 3)
        assert second.problem.startswith("MQRC_Q_FULL (2053)")
        assert (d.depth(), d.depth("DEAD")) == (2, 3)


@pytest.mark.parametrize(
    ("lost", "named"),
    [(0, "message 1"), (1, "message 2"), (2, "what follows message 2")],
    ids=["first", "second", "last"],
)
async def test_h7_8_a_group_of_which_one_was_purged_stays_and_what_is_missing_is_named(lost: int, named: str) -> None:
    async with desk() as d:
        await put_group(d, 3)
        await fail(d, 3)
        before = await reported(d)
        assert len(await purged(d, Wanted(msg_ids=frozenset({before[lost].md.msg_id})))) == 1
        (outcome,) = await retried(d)
        group = before[0].md.group_id.hex()
        assert outcome.problem == f"group {group} lacks {named}: what is left of it goes only if forced"
        assert (d.depth(), d.depth("DEAD"), len(await audited(d))) == (0, 2, 1)
        (outcome,) = await retried(d, force=True)
        assert (outcome.to, d.depth(), d.depth("DEAD")) == ("Q", 2, 0)


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ([0, 5, 10], ""),
        ([0, 10], "bytes 5 to 9 of message 1"),
        ([5, 10], "bytes 0 to 4 of message 1"),
        ([0, 5], "what follows byte 9 of message 1"),
        ([5], "bytes 0 to 4 of message 1, what follows byte 9 of message 1"),
    ],
)
@pytest.mark.parametrize("grouped", [True, False])
async def test_segments_of_which_one_is_missing_stay(there: list[int], named: str, grouped: bool) -> None:
    named = named if grouped else named.replace(" of message 1", "")
    async with desk(PLAIN) as d:
        async with d.connection.open("FOREIGN", MQOO.OUTPUT) as queue:
            for offset in there:
                flags = (MQMF.LAST_SEGMENT if offset == 10 else MQMF.SEGMENT) | (
                    MQMF.LAST_MSG_IN_GROUP if grouped else 0
                )
                md = MessageDescriptor(
                    format="MQDEAD", encoding=546, msg_flags=flags, group_id=b"G" * 24, offset=offset
                )
                await queue.put(HEADER.to_bytes() + b"12345", md)
        (outcome,) = await retried(d, queue="FOREIGN")
        assert outcome.problem == (
            f"group {'47' * 24} lacks {named}: what is left of it goes only if forced" if named else ""
        )
        assert (d.depth("FOREIGN"), d.depth()) == ((len(there), 0) if named else (0, 3))


async def test_h7_9_a_retry_of_all_takes_what_was_there_when_it_began() -> None:
    async with desk() as d, d.worker(ONCE) as worker:
        await d.put("a", "b", "c")
        await fail(d, 3)
        outcomes = 0
        async with letters_on(d) as letters:
            async for outcome in letters.retry(Wanted()):
                assert not outcome.problem
                outcomes += 1
                (taken,) = await worker.take()
                await settle(worker, Handled.FAILED, taken)
        assert (outcomes, d.depth("DEAD")) == (3, 3)
        assert [letter.replays for letter in await reported(d)] == [1, 1, 1]


async def test_what_was_put_back_three_times_goes_once_more_only_if_forced() -> None:
    async with desk() as d:
        await d.put("a")
        for _ in range(3):
            await fail(d)
            assert [outcome.to for outcome in await retried(d)] == ["Q"]
        await fail(d)
        (outcome,) = await retried(d)
        assert outcome.problem == "it has been put back 3 times already: it goes once more only if forced"
        assert [outcome.to for outcome in await retried(d, force=True)] == ["Q"]
        (message,) = await d.got()
        assert message.properties["evermq.replays"] == 4


async def put_headed(d: Desk, header: bytes, body: bytes = b"body") -> None:
    async with d.connection.open("FOREIGN", MQOO.OUTPUT) as queue:
        await queue.put(header + body, MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, encoding=546))


@pytest.mark.parametrize(
    "header", [HEADER.to_bytes()[:100], HEADER.to_bytes()[:171], b"", b"XXXX" + HEADER.to_bytes()[4:]]
)
async def test_h7_10_a_header_cut_short_is_shown_raw_and_goes_where_it_is_told(header: bytes) -> None:
    async with desk(PLAIN) as d:
        await put_headed(d, header, b"")
        (letter,) = await reported(d, queue="FOREIGN")
        assert (letter.foreign, letter.header, letter.data, letter.why, letter.q_name) == (True, None, header, "", "")
        (outcome,) = await retried(d, queue="FOREIGN")
        assert outcome.problem == "nothing in it tells where it came from: name the queue to put it to"
        assert [each.to for each in await retried(d, queue="FOREIGN", to="PLAIN")] == ["PLAIN"]
        (message,) = await d.got("PLAIN")
        assert (message.data, message.md.format) == (header, "MQDEAD")


@pytest.mark.parametrize("byteorder", ["little", "big"])
async def test_a_letter_of_another_program_goes_where_its_header_says(byteorder: Any) -> None:
    async with desk(PLAIN) as d:
        async with d.connection.open("FOREIGN", MQOO.OUTPUT) as queue:
            md = MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, encoding=546 if byteorder == "little" else 273)
            await queue.put(HEADER.to_bytes(byteorder) + b"body", md)
        (letter,) = await reported(d, queue="FOREIGN")
        assert (letter.why, letter.q_name, letter.foreign) == ("MQRC_Q_FULL", "Q", False)
        assert letter.failed_at == 1777636800.5
        assert [each.to for each in await retried(d, queue="FOREIGN")] == ["Q"]
        (message,) = await d.got()
        assert (message.data, message.md.format, message.md.encoding) == (b"body", "MQSTR", 546)


async def test_a_letter_for_another_queue_manager_goes_where_it_is_told() -> None:
    async with desk(PLAIN) as d:
        await put_headed(d, MQDLH(2085, "FAR", "QM2", 546, 1208, "MQSTR").to_bytes())
        (outcome,) = await retried(d, queue="FOREIGN")
        assert outcome.problem == "it was for FAR of queue manager QM2: name the queue to put it to"
        assert [each.to for each in await retried(d, queue="FOREIGN", to="PLAIN")] == ["PLAIN"]


async def test_a_message_that_is_no_dead_letter_is_told_and_goes_where_it_is_told() -> None:
    async with desk(PLAIN) as d:
        await d.put(
            "plain", queue="FOREIGN", properties={"evermq.why": 5, "evermq.attempts": "x", "evermq.replays": True}
        )
        (letter,) = await reported(d, queue="FOREIGN")
        assert (letter.foreign, letter.why, letter.attempts, letter.replays, letter.data) == (True, "", 0, 0, b"plain")
        assert (await retried(d, queue="FOREIGN"))[0].problem
        assert [each.to for each in await retried(d, queue="FOREIGN", to="PLAIN")] == ["PLAIN"]


async def test_a_dead_letter_that_no_handler_could_handle_is_a_dead_letter_again() -> None:
    """The header of the first death is data of the second, where that has none of its own."""
    async with desk(f"{PLAIN}\nALTER QLOCAL(Q) BOQNAME(DEAD)") as d:
        first = MQDLH(2053, "ELSEWHERE", "QM1", 546, 1208, "MQSTR")
        async with d.connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(first.to_bytes() + b"x", MessageDescriptor(format="MQDEAD", encoding=546))
        await fail(d, terms=ONCE._replace(dead_letter=""))
        (letter,) = await reported(d)
        assert (letter.header, letter.q_name) == (None, "Q")
        await retried(d)
        (message,) = await d.got()
        assert (message.md.format, message.data) == ("MQDEAD", first.to_bytes() + b"x")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ALTER QLOCAL(Q) PUT(DISABLED)", "MQRC_PUT_INHIBITED (2051)"),
        ("ALTER QLOCAL(Q) MAXDEPTH(0)", "MQRC_Q_FULL (2053)"),
        ("DELETE QLOCAL(Q)", "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        (f"ALTER QLOCAL({AUDIT_QUEUE}) PUT(DISABLED)", "MQRC_PUT_INHIBITED (2051)"),
        (f"DELETE QLOCAL({AUDIT_QUEUE})", "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
    ],
)
async def test_what_cannot_go_stays_and_nothing_is_recorded(command: str, reason: str) -> None:
    async with desk(PLAIN) as d:
        await d.put("a")
        await fail(d)
        await d.connection.mqsc(command, check=True)
        (outcome,) = await retried(d)
        assert outcome.problem.startswith(reason)
        assert (len(outcome.msg_ids), outcome.to, d.depth("DEAD")) == (1, "", 1)
        assert not d.manager.core.objects.queues.get(AUDIT_QUEUE) or d.depth(AUDIT_QUEUE) == 0


async def test_of_a_group_that_does_not_fit_nothing_goes() -> None:
    async with desk() as d:
        await put_group(d, 3)
        await fail(d, 3)
        await d.connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)", check=True)
        (outcome,) = await retried(d)
        assert outcome.problem.startswith("MQRC_Q_FULL (2053)")
        assert (d.depth(), d.depth("DEAD"), d.depth(AUDIT_QUEUE)) == (0, 3, 0)


async def test_the_dead_letter_queue_itself_is_no_target() -> None:
    async with desk("DEFINE QALIAS(ALSO) TARGET(DEAD)") as d:
        await d.put("a")
        await fail(d)
        for name in ("DEAD", "ALSO"):
            assert (await retried(d, to=name))[0].problem == f"{name} is the dead-letter queue itself"
        assert d.depth("DEAD") == 1


async def test_what_somebody_else_has_got_meanwhile_is_told() -> None:
    async with desk() as d:
        await d.put("a", "b")
        await fail(d, 2)
        async with letters_on(d) as letters:
            outcomes = letters.retry(Wanted())
            first = await anext(outcomes)
            await d.got("DEAD")
            second = await anext(outcomes)
        assert (first.to, second.to) == ("Q", "")
        assert second.problem.startswith("MQRC_NO_MSG_AVAILABLE (2033): it is not on DEAD any more")


async def test_what_is_purged_is_gone_and_recorded() -> None:
    async with desk() as d:
        await d.put("a", "b")
        await fail(d, 2)
        first, second = await reported(d)
        assert await purged(d, Wanted(msg_ids=frozenset({second.md.msg_id}))) == [Outcome((second.md.msg_id,))]
        assert [each.md.msg_id for each in await reported(d)] == [first.md.msg_id]
        (record,) = await audited(d)
        assert (record["event"], record["msg_id"]) == ("dead-letter-purged", second.md.msg_id.hex())
        assert (record["from"], record["to"]) == ("DEAD", None)


async def test_many_letters_are_all_told() -> None:
    async with desk() as d:
        await d.put(*(str(number) for number in range(600)), queue="DEAD")
        assert [letter.data for letter in await reported(d)] == [str(number).encode() for number in range(600)]


async def test_a_queue_that_is_not_there_is_an_error() -> None:
    async with desk() as d:
        with pytest.raises(MQError) as unknown:
            await reported(d, queue="NO.SUCH.QUEUE")
        assert unknown.value.reason == MQRC.UNKNOWN_OBJECT_NAME
