"""MQSC and ZMQSC commands against a queue manager that runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQCC, MQGMO, MQOO, MQPMO, MQRC, CommandFailedError
from tests.conformance.expect import ALL, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def codes(connection: Connection, text: str) -> list[str]:
    return [reply.code for reply in await connection.mqsc(text)]


async def test_a_queue_is_defined_altered_displayed_and_deleted(system: System, connection: Connection) -> None:
    assert await codes(connection, "DEFINE QLOCAL(ORDERS) DESCR('orders') MAXDEPTH(10)") == ["AMQ8006I"]
    assert await codes(connection, "DEFINE QLOCAL(ORDERS)") == ["AMQ8150E"]
    assert await codes(connection, "ALTER QLOCAL(ORDERS) MAXDEPTH(20) TRIGGER") == ["AMQ8008I"]
    (reply,) = await connection.mqsc("DISPLAY QLOCAL(ORDERS) DESCR MAXDEPTH TRIGGER CURDEPTH")
    assert reply.attributes == (
        {"QUEUE": "ORDERS", "TYPE": "QLOCAL", "DESCR": "orders", "MAXDEPTH": 20, "TRIGGER": True, "CURDEPTH": 0},
    )
    assert await codes(connection, "DELETE QLOCAL(ORDERS)") == ["AMQ8007I"]
    assert await codes(connection, "DISPLAY QLOCAL(ORDERS)") == ["AMQ8147E"]
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open("ORDERS", ALL)


async def test_replace_keeps_the_messages_of_a_queue(system: System, connection: Connection, queue: Queue) -> None:
    await queue.put(b"A")
    assert [reply.code for reply in await system.mqsc("DEFINE QLOCAL(Q) REPLACE DESCR('again')")] == ["AMQ8006I"]
    assert await drained(queue) == [b"A"]


async def test_a_queue_with_messages_is_deleted_with_purge_only(connection: Connection) -> None:
    await connection.put1("Q", b"A")
    assert await codes(connection, "DELETE QLOCAL(Q)\nDELETE QLOCAL(Q) PURGE") == ["AMQ8143E", "AMQ8007I"]
    assert await codes(connection, "DEFINE QLOCAL(Q)") == ["AMQ8006I"]
    async with connection.open("Q", ALL) as queue:
        assert await drained(queue) == []


async def test_a_queue_in_use_is_neither_deleted_nor_cleared(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT)
    assert await codes(connection, "DELETE QLOCAL(Q) PURGE\nCLEAR QLOCAL(Q)") == ["AMQ8148E"] * 2
    await queue.close()
    assert await codes(connection, "DELETE QLOCAL(Q) PURGE\nCLEAR QLOCAL(Q)") == ["AMQ8148E"] * 2
    await connection.commit()
    assert await codes(connection, "CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q)") == ["AMQ8022I", "AMQ8007I"]


async def test_clearing_removes_all_messages(system: System, connection: Connection) -> None:
    for number in range(20):
        await connection.put1("Q", b"%d" % number, persistence=number % 2)
    assert await codes(connection, "CLEAR QLOCAL(Q)") == ["AMQ8022I"]
    assert system.depth() == 0
    async with connection.open("Q", ALL) as queue:
        await queue.put(b"A")
        assert await drained(queue) == [b"A"]


async def test_a_queue_that_is_being_deleted_takes_no_message(connection: Connection, other: Connection) -> None:
    deleting, opening = await asyncio.gather(
        connection.mqsc("DELETE QLOCAL(Q)"), other.put1("Q", b"A"), return_exceptions=True
    )
    assert not isinstance(deleting, BaseException)
    assert (deleting[0].code == "AMQ8007I") == isinstance(opening, BaseException)


async def test_processes_are_defined_altered_displayed_and_deleted(connection: Connection) -> None:
    assert await codes(connection, "DEFINE PROCESS(P) APPLICID('one') USERDATA(data)") == ["AMQ8010I"]
    assert await codes(connection, "DEFINE PROCESS(P)") == ["AMQ8150E"]
    assert await codes(connection, "ALTER PROCESS(P) APPLICID('two')") == ["AMQ8012I"]
    (reply,) = await connection.mqsc("DISPLAY PROCESS(P) APPLICID USERDATA")
    assert reply.attributes == ({"PROCESS": "P", "APPLICID": "two", "USERDATA": "DATA"},)
    assert await codes(connection, "DELETE PROCESS(P)\nDISPLAY PROCESS(P)") == ["AMQ8011I", "AMQ8147E"]


async def test_the_queue_manager_is_altered_and_displayed(connection: Connection) -> None:
    assert await codes(connection, "ALTER QMGR TRIGINT(1000) DESCR('mine')") == ["AMQ8005I"]
    (reply,) = await connection.mqsc("DISPLAY QMGR TRIGINT DESCR")
    assert reply.attributes == ({"QMNAME": "QM1", "TRIGINT": 1000, "DESCR": "mine"},)


async def test_s_25_and_s_26_the_commands_of_tpf(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(TESTQ)")
    await system.mqsc("ZMQSC DEF PROCESS-MYPROCESS APPLICID-appl ENVRDATA-MYENVR USERDATA-TESTING")
    await system.mqsc("ZMQSC ALTER QL-TESTQ PROCESS-MYPROCESS TRIGGER TRIGTYPE-EVERY TRIGDATA-THISISTRIGGER")
    (reply,) = await connection.mqsc("DISPLAY QLOCAL(TESTQ) PROCESS TRIGGER TRIGTYPE TRIGDATA")
    assert reply.attributes == (
        {
            "QUEUE": "TESTQ",
            "TYPE": "QLOCAL",
            "PROCESS": "MYPROCESS",
            "TRIGGER": True,
            "TRIGTYPE": "EVERY",
            "TRIGDATA": "THISISTRIGGER",
        },
    )


async def test_a_script_goes_on_after_a_command_that_fails(connection: Connection) -> None:
    script = """
        * a comment
        DEFINE QLOCAL(A) +
               MAXDEPTH(5)
        DEFINE QLOCAL(
        ALTER QLOCAL(NOSUCH) MAXDEPTH(5)
        DISPLAY QLOCAL(A) MAXDEPTH
    """
    replies = await connection.mqsc(script)
    assert [(reply.code, reply.ok, reply.syntax_error) for reply in replies] == [
        ("AMQ8006I", True, False),
        ("AMQ8405I", False, True),
        ("AMQ8147E", False, False),
        ("AMQ8409I", True, False),
    ]
    assert replies[3].attributes[0]["MAXDEPTH"] == 5


async def test_display_shows_what_is_there_by_generic_name(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2)\nDEFINE QLOCAL(B.1)")
    await connection.put1("A.2", b"")
    replies = await connection.mqsc("DISPLAY QLOCAL(A.*) CURDEPTH")
    shown = [(each["QUEUE"], each["CURDEPTH"]) for reply in replies for each in reply.attributes]
    assert shown == [("A.1", 0), ("A.2", 1)]


async def test_commands_of_several_connections_run_one_after_the_other(system: System, connection: Connection) -> None:
    others = [await system.connect(beside=connection) for _ in range(4)]
    scripts = [
        each.mqsc("DEFINE QLOCAL(SAME)\n" + "\n".join(f"ALTER QLOCAL(Q) MAXDEPTH({number * 10 + n})" for n in range(5)))
        for number, each in enumerate(others, 1)
    ]
    replies = await asyncio.gather(*scripts)
    assert sorted(each[0].code for each in replies) == ["AMQ8006I"] + ["AMQ8150E"] * 3
    (shown,) = await connection.mqsc("DISPLAY QLOCAL(Q) MAXDEPTH")
    assert shown.attributes[0]["MAXDEPTH"] in {14, 24, 34, 44}


async def test_a_set_and_an_alter_at_once_lose_nothing(system: System, connection: Connection, queue: Queue) -> None:
    await asyncio.gather(queue.set({10: 1}), system.mqsc("ALTER QLOCAL(Q) DESCR('altered')"))  # MQIA_INHIBIT_PUT
    (shown,) = await connection.mqsc("DISPLAY QLOCAL(Q) PUT DESCR")
    assert (shown.attributes[0]["PUT"], shown.attributes[0]["DESCR"]) == ("DISABLED", "altered")


async def test_what_a_command_defines_is_there_for_the_next_call(connection: Connection) -> None:
    defined, opened = await asyncio.gather(connection.mqsc("DEFINE QLOCAL(NEW)"), opened_name(connection, "NEW"))
    assert defined[0].ok
    assert opened == "NEW"


async def opened_name(connection: Connection, name: str) -> str:
    async with connection.open(name, MQOO.OUTPUT) as queue:
        return queue.name


async def test_messages_got_under_syncpoint_are_not_cleared(connection: Connection, queue: Queue) -> None:
    for data in (b"A", b"B"):
        await queue.put(data)
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.close()
    assert await codes(connection, "CLEAR QLOCAL(Q)") == ["AMQ8148E"]
    await connection.backout()
    assert await codes(connection, "CLEAR QLOCAL(Q)") == ["AMQ8022I"]


async def test_attributes_that_do_not_act_are_warned_of_once_a_script(connection: Connection) -> None:
    script = "DEFINE QLOCAL(A) STREAMQ(B) MAXDEPTH(9)\nDEFINE QLOCAL(B) STREAMQ(A) STATQ(ON)\nDELETE QLOCAL(B)"
    for _ in range(2):
        first, second, third = await connection.mqsc(script)
        assert [each.warnings for each in (first, second, third)] == [
            ("EMQ0002W: STREAMQ is kept and shown, but EverMQ does not act on it: no message is copied.",),
            ("EMQ0002W: STATQ is kept and shown, but EverMQ does not act on it.",),
            (),
        ]
        assert first.text == "\n".join(["AMQ8006I: IBM MQ queue created.", *first.warnings])
        assert (first.ok, first.code) == (True, "AMQ8006I")
        await connection.mqsc("DELETE QLOCAL(A)")


async def test_what_ibm_mq_knows_is_not_a_syntax_error(connection: Connection) -> None:
    (reply,) = await connection.mqsc("DEFINE TOPIC(T) TOPICSTR(prices)")
    assert (reply.code, reply.ok, reply.syntax_error) == ("EMQ0001E", False, False)


async def test_a_checked_script_ends_at_the_first_failure(connection: Connection) -> None:
    script = "DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDEFINE QLOCAL(A)\nDEFINE QLOCAL(C)"
    with pytest.raises(CommandFailedError) as caught:
        await connection.mqsc(script, check=True)
    error = caught.value
    assert [reply.code for reply in error.replies] == ["AMQ8006I", "AMQ8006I", "AMQ8150E"]
    assert (error.reply, error.reason, error.completion) == (error.replies[2], 3008, MQCC.FAILED)
    assert str(error) == (
        "MQRCCF_COMMAND_FAILED (3008): command 3 failed, the 2 before it took effect and stay: "
        "AMQ8150E: IBM MQ object already exists."
    )
    assert await codes(connection, "DISPLAY QLOCAL(B)\nDISPLAY QLOCAL(C)") == ["AMQ8409I", "AMQ8147E"]


async def test_a_checked_script_without_failure_is_answered_as_any(connection: Connection) -> None:
    replies = await connection.mqsc("DEFINE QLOCAL(A)\nDISPLAY QLOCAL(A)", check=True)
    assert [reply.code for reply in replies] == ["AMQ8006I", "AMQ8409I"]
    assert await connection.mqsc("", check=True) == []


async def test_the_first_command_of_a_checked_script_leaves_nothing_behind(connection: Connection) -> None:
    with pytest.raises(CommandFailedError, match="command 1 failed, nothing took effect: AMQ8405I"):
        await connection.mqsc("DEFIN QLOCAL(A)\nDEFINE QLOCAL(B)", check=True)
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open("B", ALL)
