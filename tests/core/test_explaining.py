"""Why messages are not delivered: each thing that can keep them, found and told in figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.explain.explaining import GETTERS_MAX, ExplainSelection, explain
from broker.core.explain.findings import LOOKS_AT_ONCE
from broker.core.explain.held import HOLDERS_NAMED, MESSAGES_NAMED
from broker.core.explain.incomplete import GROUPS_MAX
from broker.core.names.resolution import Resolution
from broker.core.names.routes import Route
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, Cause, MessageDescriptor, ObjectDescriptor
from broker.mqi.completeness import in_words
from tests.core.world import ALL, name_of
from tests.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.queues.queue import LocalQueue
    from broker.mqi import Finding
    from tests.core.world import Access, World

G = name_of("g")
MIG, LMIG, SEG, LSEG = (
    MQMF.MSG_IN_GROUP,
    MQMF.LAST_MSG_IN_GROUP,
    MQMF.SEGMENT,
    MQMF.LAST_SEGMENT,
)


@pytest.fixture
def queue(world: World) -> LocalQueue:
    return world.define()


@pytest.fixture
def access(world: World, queue: LocalQueue) -> Access:
    return world.connect("orders").open()


def straight(queue: LocalQueue) -> Route:
    """The way to the queue by its own name."""
    return Route((queue,), Resolution((queue.name,), queue.name, ""))


def found(world: World, queue: LocalQueue, **ids: bytes) -> list[Finding]:
    return [
        each
        for each in explain(straight(queue), queue.shelf, ExplainSelection(**ids), world.now, world.manager)
        if each is not None
    ]


def codes(world: World, queue: LocalQueue, **ids: bytes) -> list[str]:
    return [finding.code for finding in found(world, queue, **ids)]


def the(findings: Iterable[Finding], code: Cause) -> Finding:
    """The one finding with this code."""
    (finding,) = [each for each in findings if each.code == code]
    return finding


def msg_ids(queue: LocalQueue) -> list[str]:
    return [entry.msg_id.hex() for _, entry in sorted(queue.shelf.entries.items())]


def figures(world: World, queue: LocalQueue, code: Cause, **ids: bytes) -> dict[str, Any]:
    return the(found(world, queue, **ids), code).figures


def put_items(access: Access, *items: tuple[int, int, int, int], group_id: bytes = G, options: int = 0) -> None:
    """Put members of a group: sequence number, offset, length, flags."""
    for number, offset, length, flags in items:
        md = MessageDescriptor(group_id=group_id, msg_seq_number=number, offset=offset, msg_flags=flags)
        access.put(bytes(length), options, md)


def test_a_message_that_is_available_is_just_that(world: World, queue: LocalQueue, access: Access) -> None:
    access.put(b"A")
    assert [(each.code, each.figures) for each in found(world, queue)] == [("AVAILABLE", {"messages": 1})]


def test_an_empty_queue_says_so(world: World, queue: LocalQueue) -> None:
    assert codes(world, queue) == ["NO_MESSAGE", "NOT_OPEN_FOR_INPUT"]
    world.alter(PUT=1, GET=1)
    assert codes(world, queue) == ["GET_INHIBITED", "PUT_INHIBITED", "NO_MESSAGE", "NOT_OPEN_FOR_INPUT"]


def test_an_inhibited_queue_gives_nothing_whatever_is_on_it(world: World, queue: LocalQueue, access: Access) -> None:
    access.put(b"A")
    world.alter(GET=1, PUT=1)
    assert codes(world, queue) == ["GET_INHIBITED"]


def test_identifiers_that_no_message_has_are_named(world: World, queue: LocalQueue, access: Access) -> None:
    access.put(b"A")
    finding = the(found(world, queue, msg_id=name_of("m"), correl_id=name_of("c")), Cause.NO_MESSAGE)
    assert finding.figures == {"messages": 1}
    assert finding.text == (
        f"1 message is on Q, none with MsgId {name_of('m').hex()} and CorrelId {name_of('c').hex()}"
    )


def test_uncommitted_puts_and_gets_are_told_by_program_and_age(world: World, queue: LocalQueue, access: Access) -> None:
    access.put_all([b"A", b"B", b"C"])
    access.get(MQGMO.SYNCPOINT)
    began = world.now
    world.pass_time(2.5)
    access.get(MQGMO.SYNCPOINT)
    other = world.connect("other").open()
    other.program.hconn.channel = "10.0.0.7:4000"
    other.put(b"D", MQPMO.SYNCPOINT)
    findings = found(world, queue)
    assert [each.code for each in findings] == ["UNCOMMITTED_PUT", "UNCOMMITTED_GET", "AVAILABLE"]
    got = the(findings, Cause.UNCOMMITTED_GET)
    assert got.figures == {
        "messages": 2, "msg_ids": msg_ids(queue)[:2], "appl_name": "orders", "user": "", "connection": "",
        "since": began, "seconds": 2.5,
    }  # fmt: skip
    assert got.text == "2 messages are got and not committed by orders, since 2.5 s"
    assert the(findings, Cause.UNCOMMITTED_PUT).text == (
        "1 message is put and not committed by other at 10.0.0.7:4000, since 0.0 s"
    )


def test_each_unit_of_work_is_a_finding(world: World, queue: LocalQueue) -> None:
    for name in ("one", "two"):
        world.connect(name).open().put(b"", MQPMO.SYNCPOINT)
    assert [each.figures["appl_name"] for each in found(world, queue) if each.code == "UNCOMMITTED_PUT"] == [
        "one",
        "two",
    ]


def test_the_first_messages_of_a_holder_are_named_and_those_of_the_first_holders(
    world: World, queue: LocalQueue, access: Access
) -> None:
    for _ in range(MESSAGES_NAMED + 5):
        access.put(b"A", MQPMO.SYNCPOINT)
    for number in range(HOLDERS_NAMED):
        world.connect(f"other {number}").open().put(b"", MQPMO.SYNCPOINT)
    first, *others = [each.figures for each in found(world, queue) if each.code == "UNCOMMITTED_PUT"]
    assert (first["messages"], first["msg_ids"]) == (MESSAGES_NAMED + 5, msg_ids(queue)[:MESSAGES_NAMED])
    assert [len(each["msg_ids"]) for each in others] == [1] * (HOLDERS_NAMED - 1) + [0]
    assert [each["messages"] for each in others] == [1] * HOLDERS_NAMED


def test_a_unit_of_work_begins_anew_after_its_end(world: World, queue: LocalQueue, access: Access) -> None:
    access.put(b"A", MQPMO.SYNCPOINT)
    access.program.commit()
    world.pass_time(10)
    access.put(b"B", MQPMO.SYNCPOINT)
    assert figures(world, queue, Cause.UNCOMMITTED_PUT)["since"] == world.now


def test_what_is_on_its_way_to_disk_belongs_to_nobody(world: World, queue: LocalQueue, access: Access) -> None:
    with world.hold():
        access.put(b"A")
        assert the(found(world, queue), Cause.UNCOMMITTED_PUT).text == (
            "1 message is put outside syncpoint, on the way to disk"
        )


def test_a_lock_is_told_by_its_holder(world: World, queue: LocalQueue, access: Access) -> None:
    access.put_all([b"A", b"B"])
    access.get(MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    findings = found(world, queue)
    assert the(findings, Cause.LOCKED).figures == {
        "messages": 1, "msg_ids": msg_ids(queue)[:1], "appl_name": "orders", "user": "", "connection": ""
    }  # fmt: skip
    assert the(findings, Cause.AVAILABLE).figures == {"messages": 1}


def test_a_lock_whose_handle_is_gone_is_told_as_such(world: World, queue: LocalQueue, access: Access) -> None:
    access.put_all([b"A", b"B"])
    access.get(MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    handles, queue.handles = queue.handles, set()  # as a mistake of the queue manager would leave it
    finding = the(found(world, queue), Cause.LOCKED)
    assert finding.figures == {"messages": 1, "msg_ids": msg_ids(queue)[:1], "handle_gone": True}
    assert finding.text.startswith("1 message is locked by a browse whose handle is gone")
    queue.handles = handles
    assert "handle_gone" not in figures(world, queue, Cause.LOCKED)


def test_expired_messages_are_found_and_left_there(world: World, queue: LocalQueue, access: Access) -> None:
    access.put(b"A", 0, MessageDescriptor(expiry=10))
    access.put(b"B")
    world.pass_time(2)
    assert codes(world, queue) == ["EXPIRED", "AVAILABLE"]
    assert queue.depth == 2


def test_a_marked_message_is_told(world: World, queue: LocalQueue, access: Access) -> None:
    access.put_all([b"A", b"B"])
    access.get(MQGMO.BROWSE_FIRST | MQGMO.MARK_BROWSE_HANDLE)
    assert figures(world, queue, Cause.MARKED) == {"messages": 1}


# Groups and segments


def test_a_complete_group_lacks_nothing(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (2, 3, 2, LMIG | LSEG), (2, 0, 3, LMIG | SEG), (1, 0, 1, MIG))
    assert codes(world, queue) == ["AVAILABLE"]


def test_the_missing_messages_of_a_group_are_told(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG), (3, 0, 1, MIG), (7, 0, 1, LMIG))
    finding = the(found(world, queue), Cause.INCOMPLETE_GROUP)
    assert finding.figures == {"group_id": G.hex(), "available": 3, "last": 7, "missing": [[2, 2], [4, 6]]}
    assert finding.text == f"group {G.hex()} lacks messages 2, 4 to 6; it has 7"


def test_a_group_without_its_last_message_says_so(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG), (2, 0, 1, MIG))
    finding = the(found(world, queue), Cause.INCOMPLETE_GROUP)
    assert (finding.figures["last"], finding.figures["missing"]) == (None, [[3, None]])
    assert finding.text == f"group {G.hex()} lacks messages 3 and after; its last message is not there"


def test_a_group_without_its_first_message_is_invisible_to_logical_order(
    world: World, queue: LocalQueue, access: Access
) -> None:
    put_items(access, (2, 0, 1, LMIG))
    assert codes(world, queue) == ["FIRST_ITEM_ABSENT", "INCOMPLETE_GROUP", "AVAILABLE"]
    put_items(access, (1, 5, 1, MIG | LSEG))
    assert codes(world, queue)[0] == "FIRST_ITEM_ABSENT"
    put_items(access, (1, 0, 5, MIG | SEG))
    assert codes(world, queue) == ["AVAILABLE"]


def test_the_missing_segments_of_a_message_are_told(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 10, SEG), (1, 30, 10, SEG), (1, 60, 5, LSEG))
    finding = the(found(world, queue), Cause.INCOMPLETE_MESSAGE)
    assert finding.figures == {
        "group_id": G.hex(), "available": 3, "msg_seq_number": 1, "missing": [[10, 29], [40, 59]]
    }  # fmt: skip
    assert finding.text == f"the message of group id {G.hex()} lacks segments with the bytes 10 to 29, 40 to 59"


def test_the_missing_segments_in_a_group_are_told(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG), (2, 4, 4, LMIG | SEG))
    findings = found(world, queue)
    assert the(findings, Cause.INCOMPLETE_GROUP).text == f"group {G.hex()} lacks segments; it has 2"
    assert the(findings, Cause.INCOMPLETE_MESSAGE).text == (
        f"message 2 of group {G.hex()} lacks segments with the bytes 0 to 3, 8 and after"
    )


@pytest.mark.parametrize("kept_by", ["uncommitted", "got", "locked", "expired"])
def test_a_member_that_is_there_and_not_available_is_told(
    world: World, queue: LocalQueue, access: Access, kept_by: str
) -> None:
    put_items(access, (1, 0, 1, MIG), (3, 0, 1, LMIG))
    md = MessageDescriptor(group_id=G, msg_seq_number=2, msg_flags=MIG, expiry=10 if kept_by == "expired" else -1)
    access.put(b"2", MQPMO.SYNCPOINT if kept_by == "uncommitted" else 0, md)
    if kept_by == "got":
        access.get(MQGMO.SYNCPOINT, md, match=MQMO.MATCH_MSG_SEQ_NUMBER)
    elif kept_by == "locked":
        access.get(MQGMO.BROWSE_FIRST | MQGMO.LOCK, md, match=MQMO.MATCH_MSG_SEQ_NUMBER)
    world.pass_time(2)
    finding = the(found(world, queue), Cause.INCOMPLETE_GROUP)
    assert finding.figures["missing"] == [[2, 2]]
    assert finding.figures[kept_by] == [2]
    assert ("put and not committed: 2" in finding.text) == (kept_by == "uncommitted")


def test_segments_that_are_all_uncommitted_are_told(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, SEG), (1, 1, 1, LSEG), options=MQPMO.SYNCPOINT)
    finding = the(found(world, queue), Cause.INCOMPLETE_MESSAGE)
    assert (finding.figures["available"], finding.figures["uncommitted"]) == (0, [1])


def test_only_so_many_groups_are_told_of_one_by_one(world: World, queue: LocalQueue, access: Access) -> None:
    for number in range(GROUPS_MAX + 3):
        put_items(access, (1, 0, 1, MIG), group_id=name_of(f"g{number}"))
    told_of = [each for each in found(world, queue) if each.code == Cause.INCOMPLETE_GROUP]
    assert len(told_of) == GROUPS_MAX + 1
    assert told_of[-1].figures == {"groups": 3}


def test_a_group_that_is_asked_for_is_looked_at_alone(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG))
    put_items(access, (1, 0, 1, MIG), group_id=name_of("h"))
    assert figures(world, queue, Cause.INCOMPLETE_GROUP, group_id=G)["group_id"] == G.hex()


def test_a_message_that_is_asked_for_is_explained_with_its_group(
    world: World, queue: LocalQueue, access: Access
) -> None:
    put_items(access, (1, 0, 1, MIG))
    entry = access.put(b"", 0, MessageDescriptor(group_id=G, msg_seq_number=3, msg_flags=MIG)).entry
    findings = found(world, queue, msg_id=entry.msg_id)
    assert [each.code for each in findings] == ["INCOMPLETE_GROUP", "MESSAGES_AHEAD", "AVAILABLE"]
    assert the(findings, Cause.INCOMPLETE_GROUP).figures["available"] == 2
    assert the(findings, Cause.AVAILABLE).figures == {"messages": 1}


@pytest.mark.parametrize(
    ("gaps", "text"),
    [
        ([(2, 2)], "2"),
        ([(2, 5), (7, None)], "2 to 5, 7 and after"),
        ([(number, number) for number in range(0, 24, 2)], "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, and others"),
    ],
)
def test_gaps_are_told_briefly(gaps: list[tuple[int, int | None]], text: str) -> None:
    assert in_words(gaps) == text


# Order, selectors, getters


def test_what_comes_first_is_counted(world: World, queue: LocalQueue, access: Access) -> None:
    for priority in (2, 9, 2, 5):
        access.put(b"", 0, MessageDescriptor(priority=priority))
    entry = access.put(b"", 0, MessageDescriptor(priority=2)).entry
    assert figures(world, queue, Cause.HIGHER_PRIORITY_AHEAD, msg_id=entry.msg_id) == {"messages": 2, "ahead": 4}
    highest = access.put(b"", 0, MessageDescriptor(priority=9)).entry
    assert figures(world, queue, Cause.MESSAGES_AHEAD, msg_id=highest.msg_id) == {"messages": 1}


def test_a_selector_that_hides_messages_is_told(world: World, queue: LocalQueue, access: Access) -> None:
    for priority in (1, 5, 9):
        access.put(b"", 0, MessageDescriptor(priority=priority))
    hconn = world.connect("picky").hconn
    od = ObjectDescriptor(object_name="Q", selection_string="Root.MQMD.Priority > 4")
    handle = world.manager.open(hconn, od, MQOO.BROWSE)
    assert figures(world, queue, Cause.SELECTOR) == {
        "messages": 1, "of": 3, "selector": "Root.MQMD.Priority > 4", "appl_name": "picky", "user": "", "connection": ""
    }  # fmt: skip
    world.manager.close(hconn, handle.hobj, world.tick)
    assert codes(world, queue) == ["AVAILABLE"]


@pytest.mark.parametrize(
    ("options", "match", "md", "what"),
    [
        (0, MQMO.NONE, None, "any message"),
        (0, MQMO.MATCH_MSG_ID, MessageDescriptor(msg_id=G), f"MsgId {G.hex()}"),
        (0, MQMO.MATCH_CORREL_ID, MessageDescriptor(correl_id=G), f"CorrelId {G.hex()}"),
        (0, MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER, MessageDescriptor(group_id=G, msg_seq_number=7),
         f"GroupId {G.hex()} MsgSeqNumber 7"),
        (0, MQMO.MATCH_OFFSET, MessageDescriptor(offset=7), "Offset 7"),
        (MQGMO.ALL_MSGS_AVAILABLE | MQGMO.LOGICAL_ORDER, MQMO.NONE, None, "a complete group in logical order"),
        (MQGMO.COMPLETE_MSG, MQMO.NONE, None, "a complete message"),
        (MQGMO.BROWSE_FIRST, MQMO.NONE, None, "any message to browse"),
        (MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG, MQMO.NONE, None, "not marked to browse"),
    ],
)  # fmt: skip
def test_a_waiting_getter_is_told_with_what_it_waits_for(
    world: World, queue: LocalQueue, access: Access, options: int, match: int, md: MessageDescriptor | None, what: str
) -> None:
    access.wait(options, md, match=match)
    finding = the(found(world, queue), Cause.GETTERS_WAITING)
    assert finding.text == f"1 get waits: orders for {what}"
    assert finding.figures["first"] == [{"appl_name": "orders", "user": "", "connection": "", "for": what}]


def test_a_getter_inside_a_group_waits_for_its_next_message(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG))
    access.get(MQGMO.LOGICAL_ORDER)
    access.wait(MQGMO.LOGICAL_ORDER, match=MQMO.NONE)
    assert the(found(world, queue), Cause.GETTERS_WAITING).text == (
        f"1 get waits: orders for message 2 of group {G.hex()}"
    )


def test_of_many_getters_the_first_are_shown(world: World, queue: LocalQueue) -> None:
    for number in range(GETTERS_MAX + 5):
        world.connect(f"program {number}").open().wait()
    finding = the(found(world, queue), Cause.GETTERS_WAITING)
    assert (finding.figures["getters"], len(finding.figures["first"])) == (GETTERS_MAX + 5, GETTERS_MAX)
    assert finding.text.endswith("program 2 for any message, and others")


def test_a_queue_that_nobody_gets_from_says_so(world: World, queue: LocalQueue) -> None:
    access = world.open("Q", ALL & ~MQOO.INPUT_SHARED)
    access.put(b"A")
    assert codes(world, queue) == ["NOT_OPEN_FOR_INPUT", "AVAILABLE"]


@pytest.mark.parametrize("ids", [{}, {"group_id": G}])
def test_very_many_messages_are_looked_at_in_steps(
    world: World, queue: LocalQueue, access: Access, ids: dict[str, bytes]
) -> None:
    put_items(access, (1, 0, 1, MIG))
    access.put_all([b"A"] * 20 * LOOKS_AT_ONCE)
    world.connect("other").open(selection="a = 1")
    findings = explain(straight(queue), queue.shelf, ExplainSelection(**ids), world.now, world.manager)
    most = steps = 0
    while True:
        with Steps() as counted:
            ended = next(findings, findings) is findings
        if ended:
            break
        most = max(most, counted.count)
        steps += 1
    assert steps > 20
    assert most < 200 * LOOKS_AT_ONCE


def test_messages_that_go_between_two_steps_are_left_out(world: World, queue: LocalQueue, access: Access) -> None:
    put_items(access, (1, 0, 1, MIG), (3, 0, 1, MIG))
    access.put_all([b"A"] * 2 * LOOKS_AT_ONCE)
    world.connect("other").open(selection="a = 1")
    for stop in range(8):
        findings = explain(straight(queue), queue.shelf, ExplainSelection(), world.now, world.manager)
        before = [next(findings, None) for _ in range(stop)]
        taken = [access.get(MQGMO.SYNCPOINT) for _ in range(queue.depth)]
        assert len(taken) == 2 * LOOKS_AT_ONCE + 2
        access.program.commit()
        reported = [each for each in (*before, *findings) if each is not None]
        assert all(each.figures.get("messages", 0) <= len(taken) for each in reported)
        assert (stop == 0) == ([each.code for each in reported][:1] == [Cause.NO_MESSAGE])
        put_items(access, (1, 0, 1, MIG), (3, 0, 1, MIG))
        access.put_all([b"A"] * 2 * LOOKS_AT_ONCE)


def test_what_comes_first_is_told_of_the_first_of_those_asked_for(
    world: World, queue: LocalQueue, access: Access
) -> None:
    for number in range(5):
        access.put(b"", 0, MessageDescriptor(correl_id=name_of("c" if number in (2, 4) else "x")))
    assert figures(world, queue, Cause.MESSAGES_AHEAD, correl_id=name_of("c"))["messages"] == 2


def test_a_message_that_goes_before_it_is_looked_at_is_not_counted(
    world: World, queue: LocalQueue, access: Access
) -> None:
    access.put_all([b"A"] * (LOOKS_AT_ONCE + 1))
    findings = explain(straight(queue), queue.shelf, ExplainSelection(), world.now, world.manager)
    assert next(findings) is None
    access.drain()
    available = the([each for each in findings if each is not None], Cause.AVAILABLE)
    assert available.figures == {"messages": LOOKS_AT_ONCE}
    assert codes(world, queue)[0] == "NO_MESSAGE"


def test_every_cause_is_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "groups.md").read_text("utf-8")
    assert [cause for cause in Cause if f"`{cause.value}`" not in page] == []
