"""Reports in the core: options, headers, units of work, letters that cannot be put (semantics 12.3, 12.4)."""

from __future__ import annotations

import struct

import pytest

from broker.core.message import report_options
from broker.core.message.generated import reports
from broker.core.message.headers.headers import headers_length
from broker.mqi import MQFB, MQFMT, MQGMO, MQPMO, MQRC, MQRO, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from broker.mqi.layouts.packing import unpack_md
from tests.core.world import Access, World, fails, name_of

WARNING = MQRC.UNKNOWN_REPORT_OPTION
REFUSED = MQRC.REPORT_OPTIONS_ERROR
PERSISTENT = 1


@pytest.fixture
def access(world: World) -> Access:
    """An empty queue; REPLIES is there for its reports."""
    world.define()
    world.define("REPLIES")
    return world.open()


def asking(report: int, **fields: object) -> MessageDescriptor:
    return MessageDescriptor(report=report, reply_to_q="REPLIES", persistence=PERSISTENT, **fields)  # type: ignore[arg-type]


def feedbacks(world: World) -> list[int]:
    """Get all reports: their Feedback."""
    return [feedback for feedback, _ in drained(world)]


def drained(world: World) -> list[tuple[int, bytes]]:
    """Get all reports: their Feedback and data."""
    replies = world.open("REPLIES")
    found = []
    while replies.queue.shelf.available:
        message = replies.get()
        md = MessageDescriptor()
        unpack_md(message.entry.packed_md, md)
        found.append((md.feedback, message.data))
    return found


@pytest.mark.parametrize(
    ("report", "here", "elsewhere"),
    [
        (0, 0, 0),
        (MQRO.COA | MQRO.COD, 0, 0),
        (MQRO.COA_WITH_FULL_DATA | MQRO.COD_WITH_FULL_DATA, 0, 0),
        (MQRO.EXCEPTION_WITH_DATA | MQRO.EXPIRATION_WITH_FULL_DATA | MQRO.DISCARD_MSG, 0, 0),
        (MQRO.PAN | MQRO.NAN | MQRO.ACTIVITY | MQRO.PASS_MSG_ID | MQRO.PASS_CORREL_ID, 0, 0),
        (MQRO.PASS_DISCARD_AND_EXPIRY, 0, 0),
        (0x0000_0008, WARNING, WARNING),
        (0x8000_0000, WARNING, WARNING),
        (-0x8000_0000, WARNING, WARNING),
        (0x0200_0000, WARNING, WARNING),
        (0x0500_0000, WARNING, WARNING),
        (0x00C0_0000, WARNING, WARNING),
        (0x0004_0000, REFUSED, REFUSED),
        (0x1000_0000, REFUSED, REFUSED),
        (0x1000_0008, REFUSED, REFUSED),
        (0x0000_8000, REFUSED, WARNING),
        (0x0000_0200, REFUSED, WARNING),
        (0x0000_2800, REFUSED, WARNING),
    ],
)
def test_t12_6_unknown_report_options_are_judged_by_their_masks(report: int, here: int, elsewhere: int) -> None:
    for remote, expected in ((False, here), (True, elsewhere)):
        if expected == REFUSED:
            with fails(REFUSED):
                report_options.check(report, remote=remote)
        else:
            assert report_options.check(report, remote=remote) == expected


@pytest.mark.parametrize(("report", "option"), [(0x100, 0x100), (0x300, 0x300), (0x700, 0x700), (0x500, 0), (0x200, 0)])
def test_only_valid_patterns_ask_for_a_report(report: int, option: int) -> None:  # B25
    assert report_options.COA.of(report | MQRO.COD_WITH_DATA) == option


def chained(tag: bytes, encoding: int, format: str, size: int, order: str = "<") -> bytes:
    """A header of `size` bytes, followed by data of that format and encoding."""
    return struct.pack(f"{order}4s4i8s", tag, 1, size, encoding, 1208, format.encode().ljust(8)).ljust(size)


DEAD = MQDLH(MQRC.Q_FULL, encoding=273, format=MQFMT.RF_HEADER).to_bytes()


@pytest.mark.parametrize(
    ("format", "data", "length"),
    [
        ("MYFORMAT", b"", 0),
        (MQFMT.STRING, b"hello", 0),
        (MQFMT.RF_HEADER, chained(b"RFH ", 546, "", 40) + b"hello", 40),
        (MQFMT.CICS, chained(b"CIH ", 273, MQFMT.IMS, 164) + chained(b"IIH ", 273, "", 84, ">"), 248),
        (MQFMT.DEAD_LETTER_HEADER, DEAD + chained(b"RFH ", 273, "", 32, ">") + b"hello", 172 + 32),
        (MQFMT.RF_HEADER, b"RFH ", 0),
        (MQFMT.RF_HEADER, chained(b"RFH ", 546, "", 40)[:39], 0),
        (MQFMT.RF_HEADER, chained(b"RFH ", 546, "", 32)[:8] + struct.pack("<i", 4) + bytes(40), 0),
        (MQFMT.RF_HEADER, chained(b"RFH ", 546, "", 32)[:8] + struct.pack("<i", -1) + bytes(40), 0),
        (MQFMT.RF_HEADER, chained(b"RFH ", 546, MQFMT.RF_HEADER, 32) + b"hello", 32),
    ],
)
def test_headers_are_followed_as_far_as_they_are_what_they_say(format: str, data: bytes, length: int) -> None:
    assert headers_length(format, 546, data) == length


def test_reports_become_visible_with_the_unit_that_causes_them(world: World, access: Access) -> None:
    with world.hold():
        access.put(b"hello", 0, asking(MQRO.COA))
        assert not world.manager.objects.queues["REPLIES"].shelf.available
    assert feedbacks(world) == [MQFB.COA]
    access.put(b"again", 0, asking(MQRO.COD))
    access.get()
    with world.hold():
        access.get(MQGMO.SYNCPOINT)
        access.program.commit()
        assert not world.manager.objects.queues["REPLIES"].shelf.available
    assert feedbacks(world) == [MQFB.COD]


def test_a_unit_that_finds_no_room_leaves_no_report(world: World, access: Access) -> None:
    access.put(b"hello", 0, asking(MQRO.COD))
    world.held = True
    access.get(MQGMO.SYNCPOINT)
    access.put(b"more", MQPMO.SYNCPOINT, asking(MQRO.COA))
    access.program.commit()
    world.settle_next(written=False)
    world.held = False
    assert feedbacks(world) == []
    assert access.drain() == [b"hello"]
    assert feedbacks(world) == [MQFB.COD]
    world.manager.check_invariants()


def test_a_get_that_is_given_back_is_not_confirmed(world: World, access: Access) -> None:
    access.put(b"hello", 0, asking(MQRO.COD))
    access.put(b"other", 0, asking(MQRO.COD))
    message = access.get(MQGMO.SYNCPOINT)
    access.get(MQGMO.SYNCPOINT)
    world.manager.give_back(message.entry)
    world.perform()
    unit = access.program.hconn.unit
    assert unit is not None
    assert unit.calls == 2  # the other message and its confirmation
    access.program.commit()
    assert feedbacks(world) == [MQFB.COD]


def test_a_message_that_is_put_again_is_not_confirmed_again(world: World, access: Access) -> None:
    access.put(b"hello", 0, asking(MQRO.COA))
    message = access.get()
    unit = world.manager.put_again(message.entry)
    assert unit is not None
    world.end_unit(unit, commit=True)
    assert feedbacks(world) == [MQFB.COA]


def test_persistent_reports_are_written_with_what_caused_them(world: World, access: Access) -> None:
    access.put(b"hello", 0, asking(MQRO.COA | MQRO.COD | MQRO.EXPIRATION))
    access.get()
    access.put(b"dead", 0, asking(MQRO.EXPIRATION_WITH_DATA, expiry=10))
    world.pass_time(2)
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get()
    world.restart()
    assert drained(world) == [(MQFB.COA, b""), (MQFB.COD, b""), (MQFB.EXPIRATION, b"dead")]
    assert not world.store.messages


def test_what_carries_no_data_needs_no_body(world: World, access: Access) -> None:
    plain = access.put(b"plain", 0, asking(MQRO.COD)).entry
    whole = access.put(b"whole", 0, asking(MQRO.COD_WITH_FULL_DATA)).entry
    silent = access.put(b"silent").entry
    wanted = [(entry, reports.COD) for entry in (plain, whole, silent)]
    assert reports.unread(wanted) == []
    for entry in (plain, whole, silent):
        entry.data = None
    assert reports.unread(wanted) == [whole]


@pytest.mark.parametrize(
    ("format", "confirmed"),
    [
        (MQFMT.DEAD_LETTER_HEADER, []),
        (MQFMT.XMIT_Q_HEADER, [MQFB.COD]),
        (MQFMT.STRING, [MQFB.COA, MQFB.COD]),
    ],
)
def test_what_only_passes_through_is_not_confirmed(
    world: World, access: Access, format: MQFMT, confirmed: list[MQFB]
) -> None:
    access.put(b"hello", 0, asking(MQRO.COA | MQRO.COD, format=format.value))
    access.get()
    assert feedbacks(world) == confirmed


def test_a_report_for_another_queue_manager_waits_on_its_transmission_queue(world: World, access: Access) -> None:
    world.define("QM2", USAGE=1)
    access.put(b"hello", 0, asking(MQRO.COA, reply_to_q_mgr="QM2", correl_id=name_of("A")))
    waiting = world.open("QM2").get()
    assert waiting.data[:4] == b"XQH "
    assert not world.lost


def test_a_report_without_a_route_is_lost_and_told(world: World, access: Access) -> None:
    access.put(b"hello", 0, asking(MQRO.COA, reply_to_q_mgr="QM2"))
    [(message, error)] = world.lost
    assert (message.q_name, message.q_mgr_name, error.reason) == ("REPLIES", "QM2", MQRC.UNKNOWN_REMOTE_Q_MGR)


def test_a_report_that_the_dead_letter_queue_cannot_take_is_lost_and_told(world: World, access: Access) -> None:
    world.define("DEAD", MAXMSGL=171)
    world.alter_manager(DEADQ="DEAD")
    access.put(b"hello", 0, MessageDescriptor(report=MQRO.COA, reply_to_q="NOSUCH"))
    assert [error.reason for _, error in world.lost] == [MQRC.UNKNOWN_OBJECT_NAME]
    assert not world.manager.objects.queues["DEAD"].shelf.entries
