"""A message that is completed by a template is the one that the checks of a put would have made; and a staged message
is the one that a put would have placed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.commands.table.attributes import create
from broker.core.message.entry import rank_of
from broker.core.names.definitions import Define
from broker.core.prepared.staging import StagedPiece, Staging, _Template
from broker.core.prepared.unit import UnitName
from broker.core.queues.handles import Hconn
from broker.mqi import MQMF, MQOO, MQPMO, MQRO, MessageDescriptor, MQError
from broker.mqi.layouts.packing import pack_md
from tests.core.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry, PreparedEntry
    from broker.core.prepared.staging import StagedRow

FIELDS = (
    "data", "length", "priority", "persistence", "given_msg_id", "correl_id", "packed_md", "deadline",
    "msg_seq_number", "offset", "msg_flags", "original_length", "properties",
)  # fmt: skip

descriptors = st.builds(
    MessageDescriptor,
    report=st.sampled_from([0, 0, MQRO.PASS_MSG_ID.value, MQRO.COA.value]),
    reply_to_q=st.sampled_from(["R", "R", "R", ""]),
    msg_type=st.sampled_from([8, 8, 8, 8, 3]),
    expiry=st.sampled_from([-1, -1, -1, 1, 100, 0]),
    format=st.sampled_from(["", "MQSTR"]),
    priority=st.sampled_from([-1, -1, 0, 0, 9, 12, -2]),
    persistence=st.sampled_from([0, 1, 1, 2, 2, 3]),
    msg_id=st.sampled_from([bytes(24), b"M" * 24]),
    correl_id=st.sampled_from([bytes(24), b"C" * 24]),
    group_id=st.just(b"G" * 24),
    msg_flags=st.sampled_from([0, 0, 0, MQMF.MSG_IN_GROUP.value, MQMF.LAST_MSG_IN_GROUP.value]),
)
messages = st.lists(descriptors, min_size=1, max_size=3).flatmap(
    lambda pool: st.lists(
        st.tuples(st.sampled_from(["Q", "Q", "A", "S", "X"]), st.sampled_from(pool), st.binary(max_size=5)), max_size=8
    )
)
PLAIN, GROUP = MessageDescriptor(), MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)
Given: TypeAlias = "list[tuple[str, MessageDescriptor, bytes]]"


def world() -> World:
    made = World()
    made.define("Q", DEFPSIST=1, DEFPRTY=4)
    made.define("S", MAXMSGL=4, MSGDLVSQ=1)
    made.define("X", USAGE=1)
    made._change(Define(create("QALIAS", "A", datetime.fromtimestamp(made.now, UTC), TARGET="Q", DEFPRTY=2)))
    return made


def row(q_name: str, md: MessageDescriptor, data: bytes) -> StagedRow:
    return (
        q_name, pack_md(md), md.priority, md.persistence, md.expiry, md.msg_id, md.correl_id, md.group_id,
        md.msg_seq_number, md.offset, md.msg_flags, md.original_length, b"", data,
    )  # fmt: skip


def values(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """Return the fields of the messages; for a GroupId made by the queue manager, the message that has it first."""
    groups: dict[bytes, int] = {}
    return [
        (
            entry.queue.name,
            rank_of(entry.key),
            *(getattr(entry, name) for name in FIELDS),
            groups.setdefault(entry.group_id, index) if entry.group_id != b"G" * 24 else "G",
        )
        for index, entry in enumerate(entries)
    ]


def staged(given: Given, options: int) -> tuple[list[tuple[Any, ...]], str]:
    """Return the messages after they were staged, or the reason why they are refused."""
    made = world()
    rows = [row(*each) for each in given]
    piece = StagedPiece(Hconn("program"), UnitName("S", 0, 0, bytes(16)), None, 0, rows, options, last=False)
    staging = Staging(made.manager, piece)
    try:
        for _ in staging.check(made.now):
            pass
    except MQError as error:
        return [], str(error)
    return values(staging._entries), ""


def put(given: Given, options: int) -> tuple[list[tuple[Any, ...]], str]:
    """Return the messages after they were put under syncpoint, or the reason why the first is refused that is."""
    made = world()
    program = made.connect("program")
    handles = {name: program.open(name, MQOO.OUTPUT) for name in ("Q", "S", "X", "A")}
    entries = []
    for q_name, md, data in given:
        try:
            entries.append(handles[q_name].put(data, options | MQPMO.SYNCPOINT, md).entry)
        except MQError as error:
            return [], str(error.reason)
    return values(entries), ""


@given(given=messages, options=st.sampled_from([0, 0, MQPMO.LOGICAL_ORDER.value]))
@example(given=[("S", PLAIN, b"1234"), ("S", PLAIN, b"12345")], options=0)
@example(given=[("Q", PLAIN, b""), ("Q", GROUP, b""), ("Q", PLAIN, b"")], options=MQPMO.LOGICAL_ORDER.value)
def test_a_template_makes_the_message_that_the_checks_of_a_put_make(given: Given, options: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Template, "entry", lambda *_: None)
        expected = staged(given, options)
    assert staged(given, options) == expected


@given(given=messages, options=st.sampled_from([0, 0, MQPMO.LOGICAL_ORDER.value]))
def test_a_staged_message_is_the_one_that_a_put_places(given: Given, options: int) -> None:
    found, refused = staged(given, options)
    entries, reason = put(given, options)
    assert found == entries
    assert bool(refused) == bool(reason)


def test_messages_that_differ_in_data_identifiers_and_expiry_alone_are_completed_by_a_template() -> None:
    made: list[PreparedEntry | None] = []
    with pytest.MonkeyPatch.context() as patch:
        entry = _Template.entry

        def reported(template: _Template, given: StagedRow, now: float) -> PreparedEntry | None:
            made.append(entry(template, given, now))
            return made[-1]

        patch.setattr(_Template, "entry", reported)
        md = [MessageDescriptor(correl_id=bytes([number]) * 24, expiry=number + 1) for number in range(5)]
        staged([("Q", each, b"") for each in md], 0)
    assert [each is not None for each in made] == [True] * 4
