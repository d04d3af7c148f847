"""Selectors on shared queues: the database passes over what a column says does not suit, and the core judges the rest
(queue-sharing rule 10.2.1).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import pytest

from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor, MQError, ObjectDescriptor
from broker.mqi.structures import NO_ID
from broker.sharing.database.rows import entry_of
from broker.sharing.gets import page_gets, pages
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

ONE: Final = b"1" * 24
OTHER: Final = b"2" * 24

SELECTORS: Final = (
    "Root.MQMD.Persistence = 1",
    "0 = Root.MQMD.Persistence",
    "Root.MQMD.Persistence <> 0 AND Root.MQMD.Priority > 4",
    "Root.MQMD.Persistence < 1 OR Root.MQMD.Priority > 4",
    "NOT Root.MQMD.Persistence = 1",
    "Root.MQMD.Persistence BETWEEN 0 AND 0",
    "Root.MQMD.Persistence = '1'",
    "Root.MQMD.Persistence > -1",
    "-1 > Root.MQMD.Persistence",
    "Root.MQMD.BackoutCount >= 1",
    "Root.MQMD.BackoutCount = 0.5",
    "Root.MQMD.MsgSeqNumber = 1 AND Root.MQMD.Offset <= 0",
    f'Root.MQMD.CorrelId = "0x{ONE.hex()}"',
    f"Root.MQMD.CorrelId = '0x{ONE.hex()}'",
    f'Root.MQMD.CorrelId <> "0x{ONE.hex()}"',
    f'Root.MQMD.CorrelId = "0x{NO_ID.hex()}" AND Root.MQMD.Persistence = 1',
    'Root.MQMD.CorrelId = "0x00"',
    f'Root.MQMD.MsgId = "0x{ONE.hex()}"',
    f'Root.MQMD.GroupId = "0x{NO_ID.hex()}"',
    f'Root.MQMD.GroupId = "0x{ONE.hex()}"',
    "Root.MQMD.Priority = 3",
)


@pytest.fixture(params=[1, 2, 5, 100])
def _page(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first page has so many messages."""
    with patch.object(page_gets, "LONG", request.param), patch.object(pages, "LONG", request.param):
        yield


@pytest.fixture
async def program(group: GroupDatabase) -> AsyncIterator[Connection]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(SHARED.Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN.Q)")
        yield await members.connect("QM1")


async def fill(program: Connection) -> None:
    """Put the same messages on both queues; the first five have been backed out once."""
    for name in ("SHARED.Q", "OWN.Q"):
        queue = await program.open(name, MQOO.OUTPUT | MQOO.INPUT_SHARED)
        kinds = product((0, 1), (2, 7), (NO_ID, ONE, OTHER), (ONE, OTHER), range(2))
        for number, (persistence, priority, correl_id, msg_id, _) in enumerate(kinds):
            md = MessageDescriptor(persistence=persistence, priority=priority, correl_id=correl_id, msg_id=msg_id)
            await queue.put(b"%d" % number, md)
        await queue.get_many(5, options=MQGMO.SYNCPOINT)
        await program.backout()
        await queue.close()


async def browsed(program: Connection, name: str, selector: str) -> list[bytes]:
    """The messages that a selector shows, in their order."""
    found = []
    queue = await program.open(ObjectDescriptor(object_name=name, selection_string=selector), MQOO.BROWSE)
    try:
        while True:
            found.append((await queue.get(options=MQGMO.BROWSE_NEXT)).data)
    except MQError as error:
        assert error.reason == MQRC.NO_MSG_AVAILABLE
    await queue.close()
    return found


async def taken(queue: Queue) -> list[bytes]:
    found = []
    try:
        while True:
            found.append((await queue.get()).data)
    except MQError as error:
        assert error.reason == MQRC.NO_MSG_AVAILABLE
    return found


@pytest.mark.usefixtures("_page")
async def test_a_selector_shows_the_same_on_a_shared_queue_as_on_a_private_one(program: Connection) -> None:
    await fill(program)
    counts = set()
    for selector in SELECTORS:
        expected = await browsed(program, "OWN.Q", selector)
        assert await browsed(program, "SHARED.Q", selector) == expected, selector
        counts.add(len(expected))
    assert len(counts) > 5  # they tell messages apart


@pytest.mark.usefixtures("_page")
async def test_what_does_not_suit_stays_where_it_is(program: Connection) -> None:
    await fill(program)
    left = {}
    for name in ("SHARED.Q", "OWN.Q"):
        od = ObjectDescriptor(object_name=name, selection_string=SELECTORS[2])
        async with program.open(od, MQOO.INPUT_SHARED) as queue:
            assert len(await taken(queue)) == 12
            assert await taken(queue) == []
        async with program.open(name, MQOO.INPUT_SHARED) as queue:
            left[name] = await taken(queue)
    assert left["SHARED.Q"] == left["OWN.Q"]
    assert len(left["OWN.Q"]) == 36


async def test_messages_that_do_not_suit_are_not_brought_where_a_column_says_so(program: Connection) -> None:
    await fill(program)
    with patch.object(pages, "entry_of", wraps=entry_of) as brought:
        for selector, most in (
            ("colour = 'red'", 48),
            ("Root.MQMD.Persistence = 1 AND colour = 'red'", 24),
            (f'Root.MQMD.CorrelId = "0x{ONE.hex()}"', 16),
            ("Root.MQMD.Persistence = 2", 0),
        ):
            brought.reset_mock()
            await browsed(program, "SHARED.Q", selector)
            assert len({call.args[1]["place"] for call in brought.call_args_list}) == most, selector
