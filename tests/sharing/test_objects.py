"""Objects of a group and its members: QSGDISP, copies, shared definitions, versions (queue-sharing 1 and 2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager
from broker.mqi import MQCA, MQIA, MQOO, MQRC, ObjectDescriptor
from tests.conformance.expect import fails, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

DISPOSITIONS = {"QMGR": 0, "COPY": 1, "SHARED": 2, "GROUP": 3}


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        yield members


async def run(members: Members, text: str, name: str = "QM1") -> CommandReply:
    """The reply to one command, which may fail."""
    async with members[name].connect("runmqsc") as connection:
        (reply,) = await connection.mqsc(text)
    await members.clock.rest()
    return reply


async def shown(members: Members, text: str, name: str, *keywords: str) -> list[tuple[object, ...]]:
    """These attributes of each object that DISPLAY shows; nothing where it finds none."""
    reply = await run(members, f"DISPLAY {text} ALL", name)
    return [tuple(each[keyword] for keyword in keywords) for each in reply.attributes]


# The group and its members


async def test_s1_1_a_member_says_who_it_is_and_of_which_group(members: Members) -> None:
    connection = await members.connect("QM2")
    descriptor = ObjectDescriptor(object_type=5)
    async with connection.open(descriptor, MQOO.INQUIRE) as manager:
        assert await manager.inquire(MQCA.Q_MGR_NAME, MQCA.QSG_NAME) == {
            MQCA.Q_MGR_NAME: "QM2",
            MQCA.QSG_NAME: members.group.name,
        }


async def test_s1_2_a_shared_queue_belongs_to_the_group(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM1")
    queue = await connection.open("Q", MQOO.OUTPUT)
    assert (queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", members.group.name)
    again = await connection.open(ObjectDescriptor(object_name="Q", object_q_mgr_name=members.group.name), MQOO.OUTPUT)
    assert again.resolved_q_mgr_name == members.group.name


# Copies


async def test_s2_1_each_member_has_a_copy_of_what_the_group_defines(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP) APPLICID(PAY)")
    for name in ("QM1", "QM2"):
        assert await shown(members, "PROCESS(P)", name, "QSGDISP", "APPLICID") == [("COPY", "PAY")]
    await members.start("QM3")
    assert await shown(members, "PROCESS(P)", "QM3", "QSGDISP", "APPLICID") == [("COPY", "PAY")]


@pytest.mark.parametrize("kind", ["QLOCAL", "QALIAS", "QREMOTE", "QMODEL", "PROCESS"])
async def test_every_kind_of_object_has_copies(members: Members, kind: str) -> None:
    await members.mqsc(f"DEFINE {kind}(X) QSGDISP(GROUP) DESCR(ONE)")
    assert await shown(members, f"{kind}(X)", "QM2", "QSGDISP", "DESCR") == [("COPY", "ONE")]
    await members.mqsc(f"DEFINE {kind}(X) REPLACE QSGDISP(GROUP) DESCR(TWO)", "QM2")
    assert await shown(members, f"{kind}(X)", "QM1", "QSGDISP", "DESCR") == [("COPY", "TWO")]
    await members.mqsc(f"DELETE {kind}(X) QSGDISP(GROUP)")
    assert [await shown(members, f"{kind}(X)", name, "QSGDISP") for name in members.running] == [[], []]


async def test_s2_2_a_copy_that_was_altered_is_made_anew_when_the_group_alters_what_it_is_of(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP)")
    await members.mqsc("ALTER PROCESS(P) QSGDISP(COPY) DESCR('x')", "QM2")
    assert [await shown(members, "PROCESS(P)", name, "DESCR") for name in members.running] == [[("",)], [("x",)]]
    await members.mqsc("ALTER PROCESS(P) QSGDISP(GROUP) DESCR('y')")
    assert [await shown(members, "PROCESS(P)", name, "DESCR") for name in members.running] == [[("y",)]] * 2


async def test_a_copy_that_was_altered_stays_so_over_a_restart(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP)")
    await members.mqsc("ALTER PROCESS(P) QSGDISP(COPY) DESCR('x')", "QM2")
    await members.stop("QM2")
    await members.start("QM2")
    assert await shown(members, "PROCESS(P)", "QM2", "DESCR") == [("x",)]


async def test_a_member_that_was_away_makes_its_copies_anew(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP)")
    await members.stop("QM2")
    await members.mqsc("ALTER PROCESS(P) QSGDISP(GROUP) DESCR('y')")
    await members.start("QM2")
    assert await shown(members, "PROCESS(P)", "QM2", "QSGDISP", "DESCR") == [("COPY", "y")]


async def test_s2_3_what_the_group_deletes_is_deleted_at_each_member_at_once_or_at_its_start(members: Members) -> None:
    await members.start("QM3")
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP)")
    await members.stop("QM3")
    await members.mqsc("DELETE PROCESS(P) QSGDISP(GROUP)")
    assert [await shown(members, "PROCESS(*)", name, "PROCESS") for name in members.running] == [
        [("SYSTEM.DEFAULT.PROCESS",)]
    ] * 2
    await members.start("QM3")
    assert await shown(members, "PROCESS(P)", "QM3", "QSGDISP") == []


async def test_a_copy_that_holds_messages_is_not_deleted_with_what_it_is_of(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(X) QSGDISP(GROUP)")
    connection = await members.connect("QM2")
    await connection.put1("X", b"kept")
    await members.mqsc("DELETE QLOCAL(X) QSGDISP(GROUP)")
    assert [await shown(members, "QLOCAL(X)", name, "QSGDISP") for name in members.running] == [[], [("COPY",)]]


async def test_an_object_of_its_own_keeps_a_member_from_having_a_copy(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) DESCR(OWN)", "QM2")
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP)")
    assert await shown(members, "PROCESS(P)", "QM2", "QSGDISP", "DESCR") == [("QMGR", "OWN")]
    assert (await run(members, "DEFINE PROCESS(P) REPLACE QSGDISP(COPY)", "QM2")).code == "AMQ8150E"


async def test_a_copy_may_be_defined_and_deleted_alone(members: Members) -> None:
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(GROUP) APPLICID(PAY) DESCR(ALL)")
    await members.mqsc("DELETE PROCESS(P) QSGDISP(COPY)", "QM2")
    assert [len(await shown(members, "PROCESS(P)", name, "QSGDISP")) for name in members.running] == [1, 0]
    await members.mqsc("DEFINE PROCESS(P) QSGDISP(COPY) DESCR(MINE)", "QM2")
    assert await shown(members, "PROCESS(P)", "QM2", "QSGDISP", "APPLICID", "DESCR") == [("COPY", "PAY", "MINE")]
    await members.stop("QM2")
    await members.start("QM2")
    assert await shown(members, "PROCESS(P)", "QM2", "DESCR") == [("MINE",)]


async def test_what_copies_are_made_from_cannot_be_opened(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(X) QSGDISP(GROUP)\nDELETE QLOCAL(X) QSGDISP(COPY)")
    connection = await members.connect("QM1")
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open("X", MQOO.OUTPUT)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", ["COPY", "SHARED"]),
        ("QSGDISP(LIVE)", ["COPY", "SHARED"]),
        ("QSGDISP(ALL)", ["COPY", "SHARED", "GROUP"]),
        ("QSGDISP(PRIVATE)", ["COPY"]),
        ("QSGDISP(COPY)", ["COPY"]),
        ("QSGDISP(SHARED)", ["SHARED"]),
        ("QSGDISP(GROUP)", ["GROUP"]),
    ],
)
async def test_display_shows_the_dispositions_that_it_is_asked_for(
    members: Members, asked: str, expected: list[str]
) -> None:
    await members.mqsc("DEFINE QLOCAL(X) QSGDISP(GROUP)\nDEFINE QLOCAL(X) QSGDISP(SHARED)")
    found = await shown(members, f"QLOCAL(X) {asked}", "QM2", "QSGDISP")
    assert [disposition for (disposition,) in found] == expected
    assert (await run(members, "DISPLAY QLOCAL(X) QSGDISP(QMGR)", "QM2")).code == "AMQ8147E"


@pytest.mark.parametrize(("word", "number"), DISPOSITIONS.items())
async def test_mqinq_tells_the_disposition(members: Members, word: str, number: int) -> None:
    if word == "GROUP":
        return
    group = "DEFINE QLOCAL(X) QSGDISP(GROUP)" if word == "COPY" else f"DEFINE QLOCAL(X) QSGDISP({word})"
    await members.mqsc(group)
    connection = await members.connect("QM1")
    async with connection.open("X", MQOO.INQUIRE) as queue:
        assert await queue.inquire(MQIA.QSG_DISP) == {MQIA.QSG_DISP: number}


# Shared queues


async def test_s2_4_a_name_that_is_shared_and_private_is_not_unique_where_it_is_both(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)")
    here, there = await members.connect("QM1"), await members.connect("QM2")
    with fails(MQRC.OBJECT_NOT_UNIQUE):
        await here.open("Q", MQOO.OUTPUT)
    async with there.open("Q", MQOO.OUTPUT) as queue:
        assert queue.resolved_q_mgr_name == members.group.name
    await members.mqsc("DELETE QLOCAL(Q) QSGDISP(QMGR)")
    async with here.open("Q", MQOO.OUTPUT) as queue:
        assert queue.resolved_q_mgr_name == members.group.name


@pytest.mark.parametrize("kind", ["QALIAS", "QREMOTE", "QMODEL"])
async def test_no_kind_of_private_queue_makes_the_name_unique(members: Members, kind: str) -> None:
    await members.mqsc(f"DEFINE {kind}(Q)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM1")
    with fails(MQRC.OBJECT_NOT_UNIQUE):
        await connection.open("Q", MQOO.OUTPUT)


async def test_a_handle_on_a_shared_queue_does_not_lead_on_when_the_name_gets_a_private_one(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM1")
    queue = await connection.open("Q", MQOO.OUTPUT)
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(QMGR)")
    assert await reason_of(queue.put(b"")) == MQRC.OBJECT_CHANGED
    await queue.close()


async def test_s2_5_a_shared_queue_is_defined_once(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) DESCR(FIRST)")
    assert (await run(members, "DEFINE QLOCAL(Q) QSGDISP(SHARED)", "QM2")).code == "AMQ8150E"
    await members.mqsc("DEFINE QLOCAL(Q) REPLACE QSGDISP(SHARED) DESCR(SECOND)", "QM2")
    assert await shown(members, "QLOCAL(Q)", "QM1", "DESCR", "CFSTRUCT") == [("SECOND", "APPL")]


async def test_s2_5_also_by_members_that_have_not_heard_of_one_another(members: Members) -> None:
    async with members["QM1"].connect() as first, members["QM2"].connect() as second:
        replies = [
            first.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) DESCR(FIRST)"),
            second.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) DESCR(SECOND)"),
        ]
        codes = sorted(reply.code for (reply,) in await asyncio.gather(*replies))
    assert codes == ["AMQ8006I", "AMQ8150E"]
    assert await members.group.value("SELECT count(*) FROM object WHERE name = 'Q'") == 1


async def test_two_members_that_alter_a_queue_at_once_both_do(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    async with members["QM1"].connect() as first, members["QM2"].connect() as second:
        await asyncio.gather(first.mqsc("ALTER QLOCAL(Q) DESCR(ONE)"), second.mqsc("ALTER QLOCAL(Q) MAXDEPTH(7)"))
    await members.clock.rest()
    for name in members.running:
        assert await shown(members, "QLOCAL(Q)", name, "DESCR", "MAXDEPTH") == [("ONE", 7)]


async def test_a_put_at_a_member_that_has_not_heard_of_a_change_obeys_it(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", MQOO.OUTPUT)
    member = members.member("QM2")
    monkeypatch.setattr(member.repository, "notified", lambda: None)
    await members.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    assert await reason_of(queue.put(b"")) == MQRC.PUT_INHIBITED
    monkeypatch.undo()


async def test_a_change_that_handles_depend_on_is_refused_or_makes_them_unusable(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", MQOO.OUTPUT)
    refused = await run(members, "ALTER QLOCAL(Q) USAGE(XMITQ)")
    assert refused.text == "AMQ8148E: IBM MQ object in use. Q is open at QM2."
    await members.mqsc("ALTER QLOCAL(Q) FORCE USAGE(XMITQ)")
    assert await reason_of(queue.put(b"")) == MQRC.OBJECT_CHANGED
    await queue.close()


async def test_a_queue_that_is_open_at_another_member_is_neither_deleted_nor_cleared(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", MQOO.OUTPUT)
    for command in ("DELETE QLOCAL(Q) QSGDISP(SHARED) PURGE", "CLEAR QLOCAL(Q) QSGDISP(SHARED)"):
        assert (await run(members, command)).text == "AMQ8148E: IBM MQ object in use. Q is open at QM2."
    await queue.put(b"")
    await queue.close()
    assert (await run(members, "DELETE QLOCAL(Q) QSGDISP(SHARED)")).code == "AMQ8143E"
    await members.mqsc("CLEAR QLOCAL(Q) QSGDISP(SHARED)\nDELETE QLOCAL(Q) QSGDISP(SHARED)")
    assert await shown(members, "QLOCAL(Q)", "QM2", "QSGDISP") == []
    assert await members.group.value("SELECT count(*) FROM queue WHERE name = 'Q'") == 0


async def test_a_queue_with_messages_is_deleted_with_purge_but_not_with_unfinished_units(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    await connection.put1("Q", b"committed")
    async with connection.unit_of_work():
        await connection.put1("Q", b"not yet")
        assert (await run(members, "DELETE QLOCAL(Q) PURGE")).code == "AMQ8148E"
    await members.mqsc("DELETE QLOCAL(Q) PURGE")
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.put1("Q", b"")


async def test_the_depth_is_that_of_the_group(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    here, there = await members.connect("QM1"), await members.connect("QM2")
    async with here.open("Q", MQOO.INQUIRE | MQOO.INPUT_SHARED) as queue, there.open("Q", MQOO.OUTPUT) as other:
        await other.put(b"1")
        await other.put(b"2")
        assert await queue.inquire(MQIA.CURRENT_Q_DEPTH, MQIA.OPEN_INPUT_COUNT, MQIA.OPEN_OUTPUT_COUNT) == {
            MQIA.CURRENT_Q_DEPTH: 2,
            MQIA.OPEN_INPUT_COUNT: 1,
            MQIA.OPEN_OUTPUT_COUNT: 0,
        }
        assert await shown(members, "QLOCAL(Q)", "QM1", "CURDEPTH", "IPPROCS", "OPPROCS") == [(2, 1, 0)]
        assert await shown(members, "QLOCAL(Q)", "QM2", "CURDEPTH", "IPPROCS", "OPPROCS") == [(2, 0, 1)]
        await other.put(b"3")
        (queue_of_three,) = [each for each in (await here.status())["queues"] if each["name"] == "Q"]
        assert queue_of_three["depth"] == 3


async def test_s3_1_exclusive_input_is_exclusive_in_the_whole_group(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    first, second = members["QM1"].connect(), await members.connect("QM2")
    async with first as connection:
        await connection.open("Q", MQOO.INPUT_EXCLUSIVE)
        for options in (MQOO.INPUT_SHARED, MQOO.INPUT_EXCLUSIVE):
            with fails(MQRC.OBJECT_IN_USE):
                await second.open("Q", options)
        async with second.open("Q", MQOO.OUTPUT | MQOO.BROWSE):
            pass
    queue = await second.open("Q", MQOO.INPUT_SHARED)  # MQDISC is answered when the group knows
    other = await members.connect("QM1")
    with fails(MQRC.OBJECT_IN_USE):
        await other.open("Q", MQOO.INPUT_EXCLUSIVE)
    await queue.close()
    await other.open("Q", MQOO.INPUT_EXCLUSIVE)


async def test_s3_3_a_shared_queue_named_together_with_another_member_is_opened_here_if_so_decided(
    members: Members,
) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR SQQMNAME(IGNORE)")
    connection = await members.connect("QM1")
    named = ObjectDescriptor(object_name="Q", object_q_mgr_name="QM2")
    queue = await connection.open(named, MQOO.OUTPUT)
    await queue.put(b"")
    assert queue.resolved_q_mgr_name == members.group.name
    await queue.close()
    await members.mqsc("ALTER QMGR SQQMNAME(USE)")
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):  # there is no way to QM2 but IGQ, which is off
        await connection.open(named, MQOO.OUTPUT)


async def test_a_model_makes_shared_dynamic_queues(members: Members) -> None:
    await members.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(SHAREDYN)")
    here, there = await members.connect("QM1"), await members.connect("QM2")
    queue = await here.open(
        ObjectDescriptor(object_name="MODEL", dynamic_q_name="REPLY.*"), MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.INQUIRE
    )
    await members.clock.rest()
    assert await queue.inquire(MQIA.QSG_DISP, MQIA.DEFINITION_TYPE) == {MQIA.QSG_DISP: 2, MQIA.DEFINITION_TYPE: 4}
    other = await there.open(queue.resolved_q_name, MQOO.OUTPUT)
    await other.put(b"answer")
    with pytest.raises(MQError) as refused:
        await queue.close(1)
    assert refused.value.reason == MQRC.Q_NOT_EMPTY
    assert (await queue.get()).data == b"answer"
    await queue.close(1)
    await members.clock.rest()
    assert await reason_of(other.put(b"")) == MQRC.Q_DELETED
    await other.close()


async def test_without_a_group_there_is_nothing_to_share() -> None:
    async with QueueManager.open(name="QM9") as manager, manager.connect() as connection:
        for command in (
            "DEFINE QLOCAL(Q) QSGDISP(SHARED)",
            "DEFINE PROCESS(P) QSGDISP(GROUP)",
            "DEFINE CFSTRUCT(S)",
            "DISPLAY QMGR CMDSCOPE(*)",
        ):
            (reply,) = await connection.mqsc(command)
            assert (reply.code, reply.ok) == ("AMQ8425E", False)
            assert "queue-sharing group" in reply.text
        (reply,) = await connection.mqsc("DISPLAY QMGR QSGNAME CMDSCOPE(QM9)")
        assert reply.attributes == ({"QMNAME": "QM9", "QSGNAME": ""},)
