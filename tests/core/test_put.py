"""MQPUT: identifiers, field checks, limits, defaults (semantics 1, 12.2, 13)."""

from __future__ import annotations

import pytest

from broker.core.message.entry import rank_of
from broker.mqi import MQGMO, MQMF, MQMO, MQPER, MQPMO, MQPRI, MQRC, MQRO, MessageDescriptor
from broker.mqi.layouts.packing import unpack_md
from broker.mqi.structures import NO_ID
from tests.core.world import START_TIME, World, fails, name_of

NO_REASON = 0


def test_t1_1_a_message_id_is_generated_once_and_kept_when_the_descriptor_is_used_again(world: World) -> None:
    world.define()
    access = world.open()
    first = access.put(b"A", md=MessageDescriptor()).entry
    assert first.msg_id[:4] == b"AMQ "
    assert len(first.msg_id) == 24
    second = access.put(b"B", md=MessageDescriptor(msg_id=first.msg_id)).entry
    assert second.msg_id == first.msg_id
    assert access.drain() == [b"A", b"B"]


def test_t1_2_new_msg_id_gives_each_put_an_id_of_its_own(world: World) -> None:
    world.define()
    access = world.open()
    md = MessageDescriptor(msg_id=name_of("mine"))
    ids = {access.put(b"", MQPMO.NEW_MSG_ID, md).entry.msg_id for _ in range(3)}
    assert len(ids) == 3
    assert name_of("mine") not in ids


def test_t1_3_a_correl_id_is_generated_only_when_asked_for(world: World) -> None:
    world.define()
    access = world.open()
    assert access.put().entry.correl_id == NO_ID
    asked = access.put(b"", MQPMO.NEW_CORREL_ID).entry
    assert asked.correl_id[:4] == b"AMQ "
    assert asked.correl_id != asked.msg_id
    assert access.put(b"", 0, MessageDescriptor(correl_id=name_of("mine"))).entry.correl_id == name_of("mine")


def test_t1_4_without_group_flags_the_group_fields_take_their_defaults(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"A", 0, MessageDescriptor(group_id=name_of("X"), msg_seq_number=7, offset=9))
    entry = access.get().entry
    assert (entry.group_id, entry.msg_seq_number, entry.offset, entry.msg_flags) == (NO_ID, 1, 0, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"expiry": 0}, MQRC.EXPIRY_ERROR),
        ({"expiry": -2}, MQRC.EXPIRY_ERROR),
        ({"persistence": 5}, MQRC.PERSISTENCE_ERROR),
        ({"persistence": -1}, MQRC.PERSISTENCE_ERROR),
        ({"priority": -5}, MQRC.PRIORITY_ERROR),
        ({"priority": -2}, MQRC.PRIORITY_ERROR),
        ({"msg_type": 0}, MQRC.MSG_TYPE_ERROR),
        ({"msg_type": 9}, MQRC.MSG_TYPE_ERROR),
        ({"msg_type": 65_535}, MQRC.MSG_TYPE_ERROR),
        ({"msg_type": 1_000_000_000}, MQRC.MSG_TYPE_ERROR),
        ({"feedback": -1}, MQRC.FEEDBACK_ERROR),
        ({"feedback": 1_000_000_000}, MQRC.FEEDBACK_ERROR),
        ({"version": 3}, MQRC.MD_ERROR),
        ({"msg_id": b"short"}, MQRC.MD_ERROR),
        ({"correl_id": b"short"}, MQRC.MD_ERROR),
        ({"msg_type": 1}, MQRC.MISSING_REPLY_TO_Q),  # T1.6
        ({"report": MQRO.COA}, MQRC.MISSING_REPLY_TO_Q),  # T1.6
        ({"report": MQRO.EXPIRATION_WITH_DATA}, MQRC.MISSING_REPLY_TO_Q),
    ],
    ids=str,
)
def test_t1_5_a_descriptor_field_that_is_wrong_fails_the_put_and_changes_nothing(
    world: World, fields: dict[str, int], reason: MQRC
) -> None:
    queue = world.define()
    access = world.open()
    with fails(reason):
        access.put(b"A", 0, MessageDescriptor(**fields))  # type: ignore[arg-type]
    with fails(reason):
        access.put(b"A", MQPMO.SYNCPOINT, MessageDescriptor(**fields))  # type: ignore[arg-type]
    assert queue.depth == 0
    assert access.program.hconn.unit is None


@pytest.mark.parametrize(
    "fields",
    [
        {"msg_type": 65_536},
        {"msg_type": 999_999_999},
        {"msg_type": 112},
        {"msg_type": 1, "reply_to_q": "R"},
        {"report": MQRO.COA, "reply_to_q": "R"},
        {"feedback": 999_999_999},
        {"expiry": 1},
        {"version": 1},
    ],
    ids=str,
)
def test_a_descriptor_field_at_the_edge_of_its_range_is_accepted(world: World, fields: dict[str, int]) -> None:
    world.define()
    assert world.open().put(b"A", 0, MessageDescriptor(**fields)).reason == NO_REASON  # type: ignore[arg-type]


def test_t1_5_a_priority_above_the_maximum_is_a_warning_kept_and_ordered_as_the_maximum(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"nine", 0, MessageDescriptor(priority=9))
    placed = access.put(b"twelve", 0, MessageDescriptor(priority=12))
    access.put(b"nine again", 0, MessageDescriptor(priority=9))
    assert placed.reason == MQRC.PRIORITY_EXCEEDS_MAXIMUM
    assert placed.entry.priority == 12
    assert access.drain() == [b"nine", b"twelve", b"nine again"]


def test_t1_7_no_context_leaves_the_origin_blank(world: World) -> None:
    world.define()
    md = MessageDescriptor()
    unpack_md(world.open().put(b"A", MQPMO.NO_CONTEXT).entry.packed_md, md)
    assert (md.put_appl_type, md.put_appl_name, md.put_date, md.put_time, md.user_identifier) == (0, "", "", "", "")
    with fails(MQRC.OPTIONS_ERROR):
        world.open().put(b"A", MQPMO.DEFAULT_CONTEXT | MQPMO.NO_CONTEXT)


def test_default_context_says_who_put_the_message_and_when_in_gmt(world: World) -> None:
    world.define()
    world.now = START_TIME + 0.25
    md = MessageDescriptor(put_date="19991231", put_appl_name="a lie")
    placed = world.connect("an application with a name too long").open().put(b"A", 0, md)
    unpack_md(placed.entry.packed_md, md)
    assert (md.put_appl_name, md.put_date, md.put_time) == ("an application with a name t", "20231114", "22132025")


def test_the_kept_fields_are_resolved_but_otherwise_as_given(world: World) -> None:
    world.define()
    md = MessageDescriptor(format="MQSTR", reply_to_q="R", feedback=70_000, encoding=273, report=MQRO.COD)
    kept = MessageDescriptor()
    unpack_md(world.open().put(b"A", 0, md).entry.packed_md, kept)
    assert (kept.format, kept.reply_to_q, kept.feedback, kept.encoding, kept.report) == (
        "MQSTR", "R", 70_000, 273, MQRO.COD,
    )  # fmt: skip
    assert kept.reply_to_q_mgr == "QM1"
    assert kept.coded_char_set_id == world.manager.ids.coded_char_set_id


def test_a_caller_s_descriptor_is_never_changed(world: World) -> None:
    world.define()
    md = MessageDescriptor(priority=12, reply_to_q="R")
    before = md.to_tuple()
    world.open().put(b"A", MQPMO.NEW_MSG_ID | MQPMO.NEW_CORREL_ID, md)
    assert md.to_tuple() == before


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        (MQPMO.NONE, True),
        (MQPMO.SYNCPOINT, True),
        (MQPMO.NO_SYNCPOINT, True),
        (MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT, False),
        (MQPMO.FAIL_IF_QUIESCING | MQPMO.SYNC_RESPONSE, True),
        (0x4000_0000, False),
    ],
)
def test_put_options_that_contradict_or_are_not_offered_are_refused(
    world: World, options: MQPMO, *, offered: bool
) -> None:
    queue = world.define()
    access = world.open()
    if offered:
        access.put(b"A", options)
    else:
        with fails(MQRC.OPTIONS_ERROR):
            access.put(b"A", options)
    assert queue.depth == offered


@pytest.mark.parametrize(
    ("md", "priority", "rank", "persistence"),
    [
        (None, 4, 4, 1),
        (MessageDescriptor(), 4, 4, 1),
        (MessageDescriptor(priority=MQPRI.PRIORITY_AS_Q_DEF), 4, 4, 1),
        (MessageDescriptor(priority=0, persistence=MQPER.NOT_PERSISTENT), 0, 0, 0),
        (MessageDescriptor(priority=9, persistence=MQPER.PERSISTENT), 9, 9, 1),
        (MessageDescriptor(priority=10), 10, 9, 1),
    ],
    ids=["no descriptor", "initial values", "as the queue", "0", "9", "10"],
)
def test_12_2_priority_and_persistence_resolve_to_the_queue_s_defaults(
    world: World, md: MessageDescriptor | None, priority: int, rank: int, persistence: int
) -> None:
    world.define(DEFPRTY=4, DEFPSIST=1)
    entry = world.open().put(b"A", 0, md).entry
    assert (entry.priority, rank_of(entry.key), entry.persistence) == (priority, rank, persistence)


def test_on_a_fifo_queue_messages_rank_as_the_default_priority_and_keep_their_own(world: World) -> None:
    world.define(MSGDLVSQ=1, DEFPRTY=3)
    access = world.open()
    for priority in (0, 9, 5):
        entry = access.put(b"%d" % priority, 0, MessageDescriptor(priority=priority)).entry
        assert (entry.priority, rank_of(entry.key)) == (priority, 3)
    assert access.drain() == [b"0", b"9", b"5"]


def test_t13_1_a_queue_takes_maxdepth_messages_and_a_get_frees_a_place(world: World) -> None:
    queue = world.define(MAXDEPTH=2)
    access = world.open()
    access.put_all([b"A", b"B"])
    with fails(MQRC.Q_FULL):
        access.put(b"C")
    access.get(MQGMO.BROWSE_FIRST)
    with fails(MQRC.Q_FULL):
        access.put(b"C")
    assert access.get().data == b"A"
    access.put(b"C")
    assert queue.depth == 2
    assert access.drain() == [b"B", b"C"]


def test_uncommitted_puts_count_towards_maxdepth(world: World) -> None:
    world.define(MAXDEPTH=1)
    access = world.open()
    access.put(b"A", MQPMO.SYNCPOINT)
    with fails(MQRC.Q_FULL):
        world.open().put(b"B")
    access.program.backout()
    world.open().put(b"B")


@pytest.mark.parametrize(("length", "fits"), [(0, True), (10, True), (11, False)])
def test_t13_2_a_queue_takes_messages_up_to_maxmsgl(world: World, length: int, *, fits: bool) -> None:
    queue = world.define(MAXMSGL=10)
    access = world.open()
    if fits:
        access.put(bytes(length))
    else:
        with fails(MQRC.MSG_TOO_BIG_FOR_Q):
            access.put(bytes(length))
    assert queue.depth == fits


def test_the_queue_manager_s_own_maxmsgl_comes_first(world: World) -> None:
    world.alter_manager(MAXMSGL=20)
    world.define(MAXMSGL=10)
    with fails(MQRC.MSG_TOO_BIG_FOR_Q_MGR):
        world.open().put(bytes(21))
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        world.open().put(bytes(20))


def test_an_inhibited_queue_takes_no_put_until_it_is_enabled_again(world: World) -> None:
    world.define(PUT=1)
    access = world.open()
    with fails(MQRC.PUT_INHIBITED):
        access.put(b"A")
    world.alter(PUT=0)
    access.put(b"A")
    world.alter(PUT=1)
    assert access.drain() == [b"A"]


def test_a_put_that_asked_for_it_fails_while_the_queue_manager_quiesces(world: World) -> None:
    world.define()
    access = world.open()
    world.manager.quiesce()
    world.perform()
    with fails(MQRC.Q_MGR_QUIESCING):
        access.put(b"A", MQPMO.FAIL_IF_QUIESCING)
    access.put(b"B")
    assert access.drain() == [b"B"]


def test_a_message_can_be_got_by_the_id_the_put_returned(world: World) -> None:
    world.define()
    access = world.open()
    access.put_all([b"A", b"B", b"C"])
    wanted = access.put(b"D").entry.msg_id
    assert access.get(0, MessageDescriptor(msg_id=wanted), match=MQMO.MATCH_MSG_ID).data == b"D"


def test_table_3_3_a_put_or_get_that_cannot_be_written_leaves_what_is_open(world: World) -> None:
    world.define(DEFPSIST=1)
    access = world.open()
    group = MQPMO.LOGICAL_ORDER
    access.put(b"1", group, MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
    with world.hold():
        access.put(b"2", group, MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP))
        world.settle_next(written=False)
    assert access.put(b"2", group, MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP)).entry.msg_seq_number == 2
    with world.hold():
        access.get(MQGMO.LOGICAL_ORDER)
        world.settle_next(written=False)
    assert [access.get(MQGMO.LOGICAL_ORDER).data for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("of_queue", "of_manager", "reason"),
    [(40_000, 50_000, MQRC.MSG_TOO_BIG_FOR_Q), (50_000, 40_000, MQRC.MSG_TOO_BIG_FOR_Q_MGR)],
)
def test_a_put_like_the_last_one_is_held_to_both_limits_of_its_length(
    world: World, of_queue: int, of_manager: int, reason: MQRC
) -> None:
    world.alter_manager(MAXMSGL=of_manager)
    world.define(MAXMSGL=of_queue)
    access = world.open()
    for _ in range(2):
        access.put(bytes(40_000))
        with fails(reason):
            access.put(bytes(40_001))


def test_a_unit_of_work_is_counted_by_its_own_puts_alone(world: World) -> None:
    world.alter_manager(MAXUMSGS=2)
    world.define()
    access = world.open()
    for _ in range(2):
        access.put_all([b"A", b"B"], MQPMO.SYNCPOINT)
        access.put(b"outside")
        with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
            access.put(b"C", MQPMO.SYNCPOINT)
        access.program.commit()
