"""What one member defines is there for the others with their next call, told of it or not (queue-sharing 2)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker import MQError
from broker.mqi import MQOO, MQPMO, MQRC, ObjectDescriptor, ObjectRecord
from tests.conformance.expect import ALL, drained, inside_unit, reason_of
from tests.handlers.desk import TERMS
from tests.sharing.members import Members, lose_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from broker import Connection
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        await members.mqsc(
            "DEFINE QALIAS(LEADS.THERE) TARGET(Q)\nDEFINE QLOCAL(OWN)\nALTER QMGR CFCONLOS(TOLERATE)", "QM2"
        )
        yield members


@pytest.fixture(autouse=True)
def _untold(members: Members) -> Iterator[None]:
    """QM2 hears of no change."""
    with patch.object(members.member("QM2").repository, "notified"):
        yield


async def _deliveries(connection: Connection) -> None:
    async with connection.deliveries("Q", options=TERMS):
        pass


async def _consumer(connection: Connection) -> None:
    async with connection.consumer("C", "Q"):
        pass


CALLS: dict[str, Callable[[Connection], Awaitable[object]]] = {
    "MQOPEN": lambda connection: connection.open("Q", ALL),
    "MQOPEN of an alias": lambda connection: connection.open("LEADS.THERE", MQOO.OUTPUT),
    "MQOPEN of a process": lambda connection: connection.open(
        ObjectDescriptor(object_name="P", object_type=3), MQOO.INQUIRE
    ),
    "MQOPEN of a copy": lambda connection: connection.open("COPIED", ALL),
    "MQPUT1": lambda connection: connection.put1("Q", b""),
    "MQPUT1 to an alias": lambda connection: connection.put1("LEADS.THERE", b""),
    "deliveries": _deliveries,
    "consumer": _consumer,
    "explain": lambda connection: connection.explain("Q"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
async def test_a_name_that_a_member_does_not_know_is_looked_up(members: Members, call: str) -> None:
    connection = await members.connect("QM2")
    expected = MQRC.UNKNOWN_ALIAS_BASE_Q if "alias" in call else MQRC.UNKNOWN_OBJECT_NAME
    assert await reason_of(CALLS[call](connection)) == expected
    await members.mqsc(
        "DEFINE QLOCAL(Q) QSGDISP(SHARED) TRIGGER TRIGTYPE(EVERY) PROCESS(P)\nDEFINE PROCESS(P) QSGDISP(GROUP)\n"
        "DEFINE QLOCAL(COPIED) QSGDISP(GROUP)"
    )
    assert await reason_of(CALLS[call](connection)) == MQRC.NONE


async def test_so_are_the_queues_of_a_distribution_list(members: Members) -> None:
    connection = await members.connect("QM2")
    queues = ObjectDescriptor(records=(ObjectRecord("OWN"), ObjectRecord("FIRST")))
    assert (await connection.open(queues, MQOO.OUTPUT)).reason == MQRC.MULTIPLE_REASONS
    await members.mqsc("DEFINE QLOCAL(FIRST) QSGDISP(SHARED)")
    assert (await connection.open(queues, MQOO.OUTPUT)).reason == MQRC.NONE
    await members.mqsc("DEFINE QLOCAL(SECOND) QSGDISP(SHARED)")
    queues = ObjectDescriptor(records=(ObjectRecord("OWN"), ObjectRecord("SECOND")))
    assert (await connection.put1(queues, b"")).reason == MQRC.NONE


async def test_commands_begin_with_what_other_members_have_defined(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(COPIED) QSGDISP(GROUP)")
    await members.mqsc("DISPLAY QLOCAL(Q)\nALTER QLOCAL(COPIED) QSGDISP(COPY) DESCR(MINE)", "QM2")
    await members.mqsc("ALTER QLOCAL(Q) DESCR(NEW)")
    (shown,) = await members.mqsc("DISPLAY QLOCAL(Q) DESCR", "QM2")
    assert [each["DESCR"] for each in shown.attributes] == ["NEW"]
    await members.mqsc("DELETE QLOCAL(Q)")
    async with members["QM2"].connect() as connection:
        (gone,) = await connection.mqsc("DISPLAY QLOCAL(Q)")
    assert not gone.ok


async def test_so_do_those_that_are_sent_to_a_member(members: Members) -> None:
    await members.mqsc(
        "DEFINE QLOCAL(COPIED) QSGDISP(GROUP)\nALTER QLOCAL(COPIED) QSGDISP(COPY) DESCR(MINE) CMDSCOPE(QM2)"
    )


async def test_later_calls_wait_for_one_that_is_looked_up(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(NEW) QSGDISP(SHARED)\nDEFINE QALIAS(ALSO.NEW) TARGET(NEW)")
    async with members["QM2"].connect() as connection:
        await asyncio.gather(*(connection.put1("NEW", body) for body in (b"1", b"2", b"3")))
        assert await drained(await connection.open("NEW", ALL)) == [b"1", b"2", b"3"]


async def test_calls_that_look_up_at_once_share_a_reading(members: Members) -> None:
    connections = [await members.connect("QM2") for _ in range(20)]
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    repository = members.member("QM2").repository
    with patch.object(repository, "_read", wraps=repository._read) as read:
        await asyncio.gather(*(connection.put1("Q", b"") for connection in connections))
    assert read.await_count <= 2


@pytest.mark.parametrize("defined", [True, False])
async def test_an_asynchronous_put_spoils_its_unit_of_work_only_where_the_group_has_no_such_queue(
    members: Members, defined: bool
) -> None:
    connection = await members.connect("QM2")
    if defined:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    with inside_unit(connection):
        await connection.put1("Q", b"", options=MQPMO.SYNCPOINT | MQPMO.ASYNC_RESPONSE)
        assert await reason_of(connection.commit()) == (MQRC.NONE if defined else MQRC.BACKED_OUT)


async def test_a_name_that_cannot_be_looked_up_is_not_called_unknown(members: Members) -> None:
    connection = await members.connect("QM2")
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OTHER) QSGDISP(SHARED)")
    await members.lines["QM2"].cut()
    for name in ("Q", "LEADS.THERE"):
        with pytest.raises(MQError, match="cannot be read") as caught:
            await connection.open(name, MQOO.OUTPUT)
        assert caught.value.reason == MQRC.DB2_NOT_AVAILABLE
    await members.lines["QM2"].mend()
    assert await reason_of(connection.open("Q", ALL)) == MQRC.NONE


async def test_a_connection_that_ends_meanwhile_has_its_call_answered(members: Members) -> None:
    connection = await members.connect("QM2")
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    members.lines["QM2"].hold()
    looking = asyncio.ensure_future(reason_of(connection.put1("Q", b"")))
    await asyncio.sleep(0)
    lose_line(connection)
    assert await looking == MQRC.CONNECTION_BROKEN
    members.lines["QM2"].let_through()
    await members.clock.rest()
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_a_member_does_not_read_what_it_has_changed_itself(members: Members) -> None:
    repository = members.member("QM1").repository
    scripts = (
        "DEFINE QLOCAL(A) QSGDISP(SHARED)", "ALTER QLOCAL(A) DESCR(X)", "DEFINE QLOCAL(B) QSGDISP(GROUP)",
        "DELETE QLOCAL(A)", "DELETE QLOCAL(B) QSGDISP(GROUP)",
    )  # fmt: skip
    with patch.object(repository, "_read", wraps=repository._read) as read:
        for script in scripts:
            await members.mqsc(script)
            await members.clock.rest()  # it has heard of it
    assert read.await_count == len(scripts)  # as each began


_QUEUES = [f"QLOCAL({name}) QSGDISP(SHARED)" for name in "ABC"]  # the agent of a new member opens another in its time
_ASKED = (*_QUEUES, "PROCESS(*)", "PROCESS(*) QSGDISP(GROUP)", "CFSTRUCT(*)")


async def _shown(members: Members, text: str, name: str = "QM2") -> list[str]:
    async with members[name].connect() as connection:
        return [reply.text for reply in await connection.mqsc(f"DISPLAY {text} ALL")]


@pytest.mark.parametrize("seed", range(5))
async def test_what_has_changed_makes_what_there_is(members: Members, seed: int) -> None:
    random = Random(seed)
    for _ in range(30):
        member, name = random.choice(["QM1", "QM2"]), random.choice("ABC")
        text = random.choice(
            [
                f"DEFINE QLOCAL({name}) QSGDISP(SHARED) CFSTRUCT(S{name})",
                f"ALTER QLOCAL({name}) QSGDISP(SHARED) DESCR({random.choice('XYZ')})",
                f"DELETE QLOCAL({name}) QSGDISP(SHARED)",
                f"DEFINE PROCESS({name}) QSGDISP(GROUP) REPLACE APPLICID({random.choice('XYZ')})",
                f"DELETE PROCESS({name}) QSGDISP(GROUP)",
                f"DEFINE CFSTRUCT(S{name}) REPLACE DESCR({random.choice('XYZ')})",
                f"DELETE CFSTRUCT(S{name})",
                f"RESET CFSTRUCT(S{name}) ACTION(FAIL)",
                f"BACKUP CFSTRUCT(S{name})",
            ]
        )
        async with members[member].connect() as connection:
            await connection.mqsc(text)
    await members.start("QM3")
    assert [await _shown(members, each) for each in _ASKED] == [await _shown(members, each, "QM3") for each in _ASKED]
