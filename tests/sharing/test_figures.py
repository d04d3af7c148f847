"""The figures of a member of a queue-sharing group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.expect import ALL
from tests.exposition import changes, samples

if TYPE_CHECKING:
    from tests.sharing.members import Members

pytestmark = pytest.mark.postgres

DEFINITIONS = "DEFINE QLOCAL(Q) QSGDISP(SHARED)"


async def test_o3_1_a_scrape_of_a_member_tells_of_its_group(members: Members) -> None:
    connection = await members.connect("QM1")
    queue = await connection.open("Q", ALL)
    await queue.put(b"12345")
    before = samples(await connection.figures())
    await queue.put(b"123")
    await queue.get()
    after = samples(await connection.figures())
    moved = changes(before, after)
    structure = next(name for name in after if name.startswith("evermq_structure_depth"))
    assert (before[structure], after[structure]) == (1, 1)
    assert after['evermq_queue_depth{queue="Q"}'] == 1
    assert moved['evermq_queue_puts_total{queue="Q"}'] == moved['evermq_queue_gets_total{queue="Q"}'] == 1
    assert moved['evermq_queue_get_bytes_total{queue="Q"}'] == 5
    assert moved['evermq_group_transactions_total{outcome="begun"}'] >= 2
    assert moved["evermq_group_round_trip_seconds_count"] >= 2
    assert after["evermq_group_members"] == 2
    assert after["evermq_group_joined"] == 1
    assert after["evermq_group_lease_seconds"] > 0
    assert after["evermq_group_in_doubt_units"] == after["evermq_group_recoveries_total"] == 0
