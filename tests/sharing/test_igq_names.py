"""Intra-group queuing in the core: where names lead, which messages are short enough, and what changes of definitions
do to handles (queue-sharing 9.4, 9.5, 9.9).
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from broker.commands.table.attributes import create
from broker.core.message.headers.transmission import destination_id
from broker.core.names.definitions import Define
from broker.core.names.resolution import Resolution, resolve
from broker.core.names.sharing_group import IGQ_BYTES_MAX, TRANSMISSION_QUEUE, SharingGroup
from broker.mqi import MQGMO, MQMF, MQMT, MQOO, MQRC, MQRO, MQUS, MessageDescriptor
from broker.mqi.layouts.layouts import MQXQH
from tests.core.world import Access, Program, World, fails

NOW = datetime(2026, 3, 4, tzinfo=UTC)
XMITQ = {"USAGE": MQUS.TRANSMISSION.value}
SHARED = {"QSGDISP": 2}
GROUP = SharingGroup("GRP1", frozenset({"QM1", "QM2", "QM3"}))
LONGEST = IGQ_BYTES_MAX - MQXQH.SIZE
IGQ = (TRANSMISSION_QUEUE,)

OBJECTS = [
    create("QLOCAL", "Q", NOW),
    create("QLOCAL", "S", NOW, **SHARED),
    create("QLOCAL", "X", NOW, **XMITQ),
    create("QLOCAL", "QM2", NOW, **XMITQ),
    create("QLOCAL", TRANSMISSION_QUEUE, NOW, **XMITQ, **SHARED),
    create("QALIAS", "ALIAS", NOW, TARGET="REMOTE"),
    create("QALIAS", "ALIAS.S", NOW, TARGET="S"),
    create("QREMOTE", "REMOTE", NOW, RNAME="R", RQMNAME="QM2"),
    create("QREMOTE", "REMOTE.X", NOW, RNAME="R", RQMNAME="QM2", XMITQ="X"),
    create("QREMOTE", "REMOTE.NO.X", NOW, RNAME="R", RQMNAME="QM2", XMITQ="NOSUCH"),
    create("QREMOTE", "REMOTE.S", NOW, RNAME="S", RQMNAME="QM2"),
    create("QREMOTE", "REMOTE.GROUP", NOW, RNAME="S", RQMNAME="GRP1"),
    create("QREMOTE", "QMA", NOW, RQMNAME="QM2", XMITQ="X"),
]
DEFINITIONS = {(each.space, each.name): each for each in OBJECTS}


def found(name: str, q_mgr_name: str, **attributes: int | str) -> Resolution:
    """Return the resolution of the names on QM1, a member of GRP1."""
    return resolve(DEFINITIONS, create("QMGR", "QM1", NOW, **attributes), name, q_mgr_name, GROUP)


def by_igq(*path: str, q_name: str, by_alias: bool = False, transmission: str = "") -> Resolution:
    """A way to QM2 by intra-group queuing."""
    return Resolution(
        (*path, TRANSMISSION_QUEUE),
        q_name,
        "QM2",
        remote=True,
        by_alias=by_alias,
        intra_group=True,
        transmission=transmission,
    )


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "expected"),
    [
        ("ANY", "QM2", by_igq(q_name="ANY")),  # though there is a transmission queue QM2
        ("REMOTE", "", by_igq("REMOTE", q_name="R")),
        ("REMOTE", "QM1", by_igq("REMOTE", q_name="R")),
        ("REMOTE.X", "", by_igq("REMOTE.X", q_name="R", transmission="X")),
        ("REMOTE.NO.X", "", by_igq("REMOTE.NO.X", q_name="R", transmission="NOSUCH")),
        ("ALIAS", "", by_igq("ALIAS", "REMOTE", q_name="R")),
        ("ANY", "QMA", by_igq("QMA", q_name="ANY", by_alias=True, transmission="X")),
        ("S", "QM2", by_igq(q_name="S")),
        ("REMOTE.S", "", by_igq("REMOTE.S", q_name="S")),
        ("ANY", "X", Resolution(("X",), "ANY", "X", remote=True)),  # X is no member
        ("Q", "QM1", Resolution(("Q",), "Q", "QM1")),
        ("S", "", Resolution(("S",), "S", "GRP1")),
        ("S", "QM1", Resolution(("S",), "S", "GRP1")),
        ("S", "GRP1", Resolution(("S",), "S", "GRP1")),
        ("ALIAS.S", "GRP1", Resolution(("ALIAS.S", "S"), "S", "GRP1")),
        ("REMOTE.GROUP", "", Resolution(("REMOTE.GROUP", "S"), "S", "GRP1")),
    ],
)
def test_igq_enabled_leads_to_other_members_by_the_shared_transmission_queue(
    name: str, q_mgr_name: str, expected: Resolution
) -> None:
    assert found(name, q_mgr_name, IGQ=1) == expected


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "path"),
    [("ANY", "QM2", ("QM2",)), ("REMOTE.X", "", ("REMOTE.X", "X")), ("ANY", "QM3", ("X",)), ("S", "QM2", ("QM2",))],
)
def test_igq_disabled_leads_to_them_as_to_any_queue_manager(name: str, q_mgr_name: str, path: tuple[str, ...]) -> None:
    outcome = found(name, q_mgr_name, DEFXMITQ="X")
    assert (outcome.path, outcome.remote, outcome.intra_group) == (path, True, False)


@pytest.mark.parametrize(("name", "q_mgr_name"), [("S", "QM2"), ("S", "QM3"), ("REMOTE.S", ""), ("S", "QMA")])
def test_s3_3_sqqmname_ignore_opens_a_shared_queue_here_whichever_member_is_named(name: str, q_mgr_name: str) -> None:
    used = found(name, q_mgr_name, IGQ=1)
    assert (used.remote, used.path[-1]) == (True, TRANSMISSION_QUEUE)
    ignored = found(name, q_mgr_name, IGQ=1, SQQMNAME=1)
    assert (ignored.remote, ignored.path[-1], ignored.q_mgr_name) == (False, "S", "GRP1")
    assert found("Q", "QM2", IGQ=1, SQQMNAME=1).remote  # of queues that are not shared the name counts


def test_without_the_shared_transmission_queue_nothing_leads_there() -> None:
    there = {key: each for key, each in DEFINITIONS.items() if each.name != TRANSMISSION_QUEUE}
    with fails(MQRC.UNKNOWN_XMIT_Q):
        resolve(there, create("QMGR", "QM1", NOW, IGQ=1), "ANY", "QM2", GROUP)
    normal = {**there, ("QUEUE", TRANSMISSION_QUEUE): create("QLOCAL", TRANSMISSION_QUEUE, NOW, **SHARED)}
    with fails(MQRC.XMIT_Q_USAGE_ERROR):
        resolve(normal, create("QMGR", "QM1", NOW, IGQ=1), "ANY", "QM2", GROUP)


def test_outside_a_group_igq_changes_nothing() -> None:
    alone = resolve(DEFINITIONS, create("QMGR", "QM1", NOW, IGQ=1), "ANY", "QM2")
    assert alone == Resolution(("QM2",), "ANY", "QM2", remote=True)


@pytest.mark.parametrize("name", ["QM2", "Q" * 24, "Q" * 25, "Q" * 48])
def test_each_member_has_an_identifier_of_its_own_on_the_transmission_queue(name: str) -> None:
    identifier = destination_id(name)
    assert len(identifier) == 24
    assert identifier != destination_id(name + "X")
    assert identifier.rstrip(b"\0") == name.encode() or len(name) > 24


# Puts. The core does not ask where a queue's messages are: here the transmission queue is one in memory.


@pytest.fixture
def world() -> World:
    world = World()
    world.manager.objects.group = GROUP
    world.define(TRANSMISSION_QUEUE, **XMITQ, DEFPSIST=1, DEFPRTY=3)
    world.define("X", **XMITQ)
    world.alter_manager(IGQ=1)
    return world


def where(world: World) -> dict[str, list[int]]:
    """The lengths of the messages on each transmission queue, headers included."""
    queues = world.manager.objects.queues
    return {
        name: [entry.length for entry in queues[name].shelf.entries.values()]
        for name in (TRANSMISSION_QUEUE, "X")
        if queues[name].depth
    }


def to_qm2(world: World) -> Access:
    return world.connect().open_at("R", "QM2")


def remote(world: World, **attributes: int | str) -> None:
    """DEFINE QREMOTE(REMOTE) RNAME(R) RQMNAME(QM2)."""
    change, _ = world.manager.freeze(Define(create("QREMOTE", "REMOTE", NOW, RNAME="R", RQMNAME="QM2", **attributes)))
    world.manager.apply(change)


def test_a_message_waits_with_its_header_for_the_agent_of_its_destination(world: World) -> None:
    handle = to_qm2(world)
    assert handle.handle.route is not None
    assert (handle.handle.route.q_name, handle.handle.route.q_mgr_name) == ("R", "QM2")
    md = MessageDescriptor(correl_id=b"C" * 24, report=MQRO.COA, reply_to_q="REPLIES", msg_type=MQMT.REQUEST)
    handle.put(b"hello", md=md)
    mine = MessageDescriptor(correl_id=destination_id("QM2"))
    waiting = world.open(TRANSMISSION_QUEUE, MQOO.BROWSE).get(MQGMO.BROWSE_FIRST, mine)
    header = MQXQH.from_bytes(waiting.data)
    assert (header.remote_q_name, header.remote_q_mgr_name) == ("R", "QM2")
    assert (header.md.correl_id, header.md.priority, header.md.persistence) == (b"C" * 24, 3, 1)
    assert waiting.data[MQXQH.SIZE :] == b"hello"


@pytest.mark.parametrize(
    ("length", "maximum", "queue"),
    [
        (LONGEST, 4194304, TRANSMISSION_QUEUE),
        (LONGEST + 1, 4194304, "X"),
        (1000, 1428, TRANSMISSION_QUEUE),  # MAXMSGL of the transmission queue counts with the header, too
        (1001, 1428, "X"),
    ],
)
def test_s9_2_a_message_too_long_with_its_header_goes_by_the_conventional_transmission_queue(
    world: World, length: int, maximum: int, queue: str
) -> None:
    world.alter(TRANSMISSION_QUEUE, MAXMSGL=maximum)
    world.alter_manager(DEFXMITQ="X")
    to_qm2(world).put(b"." * length)
    assert where(world) == {queue: [length + MQXQH.SIZE]}


def test_messages_of_one_handle_go_both_ways(world: World) -> None:
    remote(world, XMITQ="X")
    handle = world.open("REMOTE", MQOO.OUTPUT)
    for length in (1, LONGEST + 1, 2):
        handle.put(b"." * length)
    assert where(world) == {TRANSMISSION_QUEUE: [429, 430], "X": [LONGEST + 429]}
    long = world.open("X", MQOO.BROWSE).get(MQGMO.BROWSE_FIRST).entry
    assert long.correl_id == MQXQH.from_bytes(long.data or b"").md.msg_id  # as on every transmission queue


def test_a_long_message_takes_its_defaults_from_the_way_that_was_opened(world: World) -> None:
    world.alter_manager(DEFXMITQ="X")
    to_qm2(world).put(b"." * (LONGEST + 1), md=MessageDescriptor(priority=-1))
    long = world.open("X", MQOO.BROWSE).get(MQGMO.BROWSE_FIRST).entry
    assert (long.priority, long.persistence) == (3, 1)


@pytest.mark.parametrize("default", ["", "NOSUCH", TRANSMISSION_QUEUE])
def test_without_a_conventional_way_a_long_message_is_too_long(world: World, default: str) -> None:
    world.alter_manager(DEFXMITQ=default)
    handle = to_qm2(world)
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        handle.put(b"." * (LONGEST + 1))
    handle.put(b"." * LONGEST)
    assert where(world) == {TRANSMISSION_QUEUE: [IGQ_BYTES_MAX]}


def test_without_a_conventional_way_a_message_that_may_be_cut_is(world: World) -> None:
    data = b"." * (2 * LONGEST)
    to_qm2(world).put(data, md=MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED))
    pieces = where(world)[TRANSMISSION_QUEUE]
    assert len(pieces) == 3
    assert sum(pieces) == len(data) + 3 * (MQXQH.SIZE + 72)  # each has an MQMDE, which says where it belongs


def test_a_put_is_refused_where_the_way_that_it_takes_is_inhibited(world: World) -> None:
    world.alter_manager(DEFXMITQ="X")
    world.alter("X", PUT=1)
    handle = to_qm2(world)
    handle.put(b"short")
    with fails(MQRC.PUT_INHIBITED):
        handle.put(b"." * (LONGEST + 1))


def test_a_put_is_refused_where_the_definition_that_was_opened_is_inhibited(world: World) -> None:
    remote(world, XMITQ="X", PUT=1)
    handle = world.open("REMOTE", MQOO.OUTPUT)
    for length in (1, LONGEST + 1):
        with fails(MQRC.PUT_INHIBITED):
            handle.put(b"." * length)


# OBJECT_CHANGED


def dead(handle: Access) -> bool:
    """True if a put to the handle fails with OBJECT_CHANGED, now and again."""
    for _ in range(2):
        try:
            handle.put(b"x")
        except Exception as error:
            assert getattr(error, "reason", None) == MQRC.OBJECT_CHANGED
        else:
            return False
    return True


@pytest.fixture
def program(world: World) -> Program:
    world.alter_manager(DEFXMITQ="X")
    world.define("Q")
    return world.connect()


def test_s9_3_a_handle_by_igq_is_dead_when_igq_is_disabled(world: World, program: Program) -> None:
    handle = program.open_at("R", "QM2")
    world.alter_manager(IGQ=0)
    assert dead(handle)
    handle.close()
    program.open_at("R", "QM2").put(b"again")
    assert where(world) == {"X": [433]}


def test_s9_3_a_handle_to_a_member_is_dead_when_igq_is_enabled(world: World, program: Program) -> None:
    world.alter_manager(IGQ=0)
    handle, elsewhere = program.open_at("R", "QM2"), program.open_at("R", "QM9")
    world.alter_manager(IGQ=1)
    assert dead(handle)
    assert not dead(elsewhere)
    handle.close()
    program.open_at("R", "QM2").put(b"again")
    assert where(world)[TRANSMISSION_QUEUE] == [433]


@pytest.mark.parametrize("attributes", [{"GET": 1}, {"MAXDEPTH": 7}, {"USAGE": 0}])
def test_s9_3_a_handle_by_igq_is_dead_when_the_transmission_queue_is_changed(
    world: World, program: Program, attributes: dict[str, int]
) -> None:
    handle, elsewhere = program.open_at("R", "QM2"), program.open_at("R", "QM9")
    world.alter(TRANSMISSION_QUEUE, **attributes)
    assert dead(handle)
    assert not dead(elsewhere)


def test_s9_3_what_does_not_concern_the_way_leaves_handles_as_they_are(world: World, program: Program) -> None:
    handle, here = program.open_at("R", "QM2"), program.open("Q", MQOO.OUTPUT)
    world.alter("Q", MAXDEPTH=7)
    world.alter_manager(IGQ=1, DESCR="any")
    world.alter_manager(SQQMNAME=1)
    world.alter(TRANSMISSION_QUEUE)
    assert not dead(handle)
    world.alter_manager(IGQ=0)
    assert not dead(here)
