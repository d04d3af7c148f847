"""MQGET: order, matching, truncation, inhibition (semantics 5.1, 5.2, 5.4, 7)."""

from __future__ import annotations

import pytest

from broker.mqi import MQGMO, MQMO, MQPMO, MQRC, MessageDescriptor
from tests.core.world import BOTH_IDS, Access, World, fails, name_of

MSG_ID = MQMO.MATCH_MSG_ID
CORREL_ID = MQMO.MATCH_CORREL_ID
NEITHER = MQMO.NONE
BROWSE = MQGMO.BROWSE_FIRST


@pytest.fixture
def access(world: World) -> Access:
    """A queue with two messages: M1 of CorrelId A, M2 of CorrelId B."""
    world.define()
    access = world.open()
    for number, correl in ((1, "A"), (2, "B")):
        md = MessageDescriptor(msg_id=name_of(f"M{number}"), correl_id=name_of(correl))
        access.put(b"M%d" % number, 0, md)
    return access


def ids(msg: str = "", correl: str = "") -> MessageDescriptor:
    """A descriptor to match; an empty name is the identifier of zeros."""
    md = MessageDescriptor()
    if msg:
        md.msg_id = name_of(msg)
    if correl:
        md.correl_id = name_of(correl)
    return md


@pytest.mark.parametrize(
    ("md", "match", "found"),
    [
        (None, BOTH_IDS, b"M1"),
        (ids(), BOTH_IDS, b"M1"),
        (ids(correl="B"), CORREL_ID, b"M2"),
        (ids(), CORREL_ID, b"M1"),
        (ids(correl="C"), NEITHER, b"M1"),
        (ids(correl="C"), MSG_ID, b"M1"),
        (ids(correl="C"), CORREL_ID, None),
        (ids(msg="M2"), MSG_ID, b"M2"),
        (ids(msg="M2", correl="B"), BOTH_IDS, b"M2"),
        (ids(msg="M2", correl="A"), BOTH_IDS, None),  # T7.2
        (ids(msg="M2", correl="A"), CORREL_ID, b"M1"),
        (ids(msg="M3"), BOTH_IDS, None),
        (ids(msg="M2"), MSG_ID | MQMO.MATCH_MSG_SEQ_NUMBER, b"M2"),
        (ids(msg="M2"), MQMO.MATCH_MSG_SEQ_NUMBER, b"M1"),
        (MessageDescriptor(msg_seq_number=2), MQMO.MATCH_MSG_SEQ_NUMBER, None),
        (MessageDescriptor(offset=0), MQMO.MATCH_OFFSET, b"M1"),
        (MessageDescriptor(offset=1), MQMO.MATCH_OFFSET, None),
        (MessageDescriptor(group_id=name_of("G")), MQMO.MATCH_GROUP_ID, None),
        (MessageDescriptor(), MQMO.MATCH_GROUP_ID, b"M1"),
    ],
)
@pytest.mark.parametrize("options", [0, MQGMO.SYNCPOINT, BROWSE])
def test_t7_1_a_get_finds_the_first_message_that_matches_in_all_that_is_asked(
    access: Access, md: MessageDescriptor | None, match: MQMO, options: MQGMO, *, found: bytes | None
) -> None:
    if found is None:
        with fails(MQRC.NO_MSG_AVAILABLE):
            access.get(options, md, match=match)
    else:
        assert access.get(options, md, match=match).data == found


@pytest.mark.parametrize(
    ("md", "match", "reason"),
    [
        (MessageDescriptor(msg_seq_number=0), MQMO.MATCH_MSG_SEQ_NUMBER, MQRC.MSG_SEQ_NUMBER_ERROR),  # T1.10
        (MessageDescriptor(msg_seq_number=1_000_000_000), MQMO.MATCH_MSG_SEQ_NUMBER, MQRC.MSG_SEQ_NUMBER_ERROR),
        (MessageDescriptor(version=1), MQMO.MATCH_GROUP_ID, MQRC.WRONG_MD_VERSION),
        (MessageDescriptor(version=1), MQMO.MATCH_MSG_SEQ_NUMBER, MQRC.WRONG_MD_VERSION),
        (MessageDescriptor(version=1), MQMO.MATCH_OFFSET, MQRC.WRONG_MD_VERSION),
        (MessageDescriptor(), 0x40, MQRC.MATCH_OPTIONS_ERROR),  # T7.3
    ],
)
def test_t1_10_match_options_that_cannot_be_are_refused(
    access: Access, md: MessageDescriptor, match: int, reason: MQRC
) -> None:
    with fails(reason):
        access.get(0, md, match=match)
    assert access.queue.depth == 2


def test_t7_6_the_first_version_of_the_options_matches_both_ids(access: Access) -> None:
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, ids(msg="unknown"), match=NEITHER, version=1)
    assert access.get(0, ids(msg="M2"), match=NEITHER, version=1).data == b"M2"


def test_a_message_can_be_got_by_its_token(access: Access) -> None:
    token = access.get(BROWSE, ids(msg="M2"), match=MSG_ID).entry.token
    assert access.get(0, match=MQMO.MATCH_MSG_TOKEN, token=token).data == b"M2"
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, match=MQMO.MATCH_MSG_TOKEN, token=token)
    assert access.get(0, match=MQMO.MATCH_MSG_TOKEN).data == b"M1"


def test_messages_of_one_correl_id_come_in_queue_order(world: World) -> None:
    world.define()
    access = world.open()
    for data, priority in ((b"A", 1), (b"B", 7), (b"C", 7), (b"D", 9)):
        access.put(data, 0, MessageDescriptor(correl_id=name_of("X"), priority=priority))
        access.put(b"other", 0, MessageDescriptor(priority=priority))
    found = [access.get(0, ids(correl="X")).data for _ in range(4)]
    assert found == [b"D", b"B", b"C", b"A"]


@pytest.mark.parametrize(
    "options",
    [
        MQGMO.SYNCPOINT | MQGMO.NO_SYNCPOINT,
        MQGMO.SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT,
        MQGMO.BROWSE_FIRST | MQGMO.BROWSE_NEXT,
        MQGMO.BROWSE_NEXT | MQGMO.BROWSE_MSG_UNDER_CURSOR,
        MQGMO.BROWSE_FIRST | MQGMO.MSG_UNDER_CURSOR,
        MQGMO.SYNCPOINT | MQGMO.BROWSE_FIRST,  # T5.6
        MQGMO.SYNCPOINT | MQGMO.BROWSE_NEXT,
        MQGMO.SYNCPOINT | MQGMO.BROWSE_MSG_UNDER_CURSOR,
        MQGMO.SYNCPOINT_IF_PERSISTENT | MQGMO.BROWSE_FIRST,
        MQGMO.LOCK,  # T5.6
        MQGMO.UNLOCK | MQGMO.WAIT,  # T5.6
        MQGMO.SET_SIGNAL,
        MQGMO.MARK_SKIP_BACKOUT | MQGMO.SYNCPOINT,
        0x4000_0000,
    ],
)
def test_options_that_contradict_or_are_not_offered_are_refused(access: Access, options: MQGMO) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        access.get(options)
    assert access.queue.depth == 2


@pytest.mark.parametrize(
    ("options", "max_length", "reason", "stays"),
    [
        (0, None, 0, False),
        (0, 100, 0, False),
        (0, 99, MQRC.TRUNCATED_MSG_FAILED, True),
        (0, 0, MQRC.TRUNCATED_MSG_FAILED, True),
        (MQGMO.ACCEPT_TRUNCATED_MSG, 100, 0, False),
        (MQGMO.ACCEPT_TRUNCATED_MSG, 40, MQRC.TRUNCATED_MSG_ACCEPTED, False),
        (MQGMO.ACCEPT_TRUNCATED_MSG, 0, MQRC.TRUNCATED_MSG_ACCEPTED, False),
        (MQGMO.SYNCPOINT, 40, MQRC.TRUNCATED_MSG_FAILED, True),
        (MQGMO.SYNCPOINT | MQGMO.ACCEPT_TRUNCATED_MSG, 40, MQRC.TRUNCATED_MSG_ACCEPTED, False),
        (BROWSE, 40, MQRC.TRUNCATED_MSG_FAILED, True),
        (BROWSE | MQGMO.ACCEPT_TRUNCATED_MSG, 40, MQRC.TRUNCATED_MSG_ACCEPTED, True),
    ],
)
def test_t5_5_a_message_longer_than_the_buffer_stays_unless_truncation_is_accepted(
    world: World, options: MQGMO, max_length: int | None, reason: int, *, stays: bool
) -> None:
    queue = world.define()
    access = world.open()
    access.put(bytes(100))
    message = access.get(options, max_length=max_length)
    assert (message.reason, message.entry.length) == (reason, 100)
    assert queue.depth == stays
    if reason == MQRC.TRUNCATED_MSG_FAILED:
        assert access.program.hconn.unit is None
        assert access.get().entry.backout_count == 0


def test_an_empty_message_fits_an_empty_buffer(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"")
    assert access.get(MQGMO.ACCEPT_TRUNCATED_MSG, max_length=0).reason == 0


def test_a_buffer_has_no_negative_length(access: Access) -> None:
    with fails(MQRC.BUFFER_LENGTH_ERROR):
        access.get(max_length=-1)


@pytest.mark.parametrize("options", [0, MQGMO.SYNCPOINT, BROWSE, MQGMO.BROWSE_NEXT, MQGMO.WAIT])
def test_t5_4_a_queue_that_is_inhibited_for_gets_gives_nothing(access: Access, options: MQGMO) -> None:
    access.world.alter(GET=1)
    with fails(MQRC.GET_INHIBITED):
        access.get(options, wait_interval=-1)


def test_t13_4_inhibition_lets_puts_and_the_commit_of_an_earlier_get_go_on(access: Access) -> None:
    queue = access.queue
    access.get(MQGMO.SYNCPOINT)
    access.world.alter(GET=1)
    access.put(b"M3", MQPMO.SYNCPOINT)
    access.program.commit()
    assert (queue.depth, queue.uncommitted) == (2, 0)
    access.world.alter(GET=0)
    assert access.drain() == [b"M2", b"M3"]


def test_a_get_that_asked_for_it_fails_while_the_queue_manager_quiesces(access: Access) -> None:
    access.world.manager.quiesce()
    access.world.perform()
    with fails(MQRC.Q_MGR_QUIESCING):
        access.get(MQGMO.FAIL_IF_QUIESCING)
    assert access.get().data == b"M1"
