"""The markers of decided units are deleted as fast as they come (step 7 of a transaction)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.databases.errors import DatabaseAwayError
from broker.databases.opened import DELETED_MAX
from broker.testing import VirtualClock
from broker.transactions.markers import INTERVAL, DecidedMarkers

if TYPE_CHECKING:
    from collections.abc import Sequence


class FakeDatabase:
    """Deletes markers, or is away."""

    def __init__(self) -> None:
        self.deleted: list[int] = []
        self.away = False

    async def delete(self, units: Sequence[bytes]) -> None:
        if self.away:
            raise DatabaseAwayError("it is away")
        self.deleted.append(len(units))


async def test_all_that_were_decided_within_a_second_are_deleted_however_many() -> None:
    database, clock = FakeDatabase(), VirtualClock()
    opened: Any = database
    markers = DecidedMarkers(opened, clock)
    for second in range(1, 4):
        for number in range(5 * DELETED_MAX):
            markers.add(number.to_bytes(16, "big"))
        await clock.advance(INTERVAL)
        assert (database.deleted, markers.deleting) == ([5 * DELETED_MAX] * second, False)
    database.away = True
    markers.add(bytes(16))
    await clock.advance(INTERVAL)
    database.away = False
    await clock.advance(INTERVAL)
    assert len(database.deleted) == 3, "a cleaner deletes what could not be"
    markers.add(bytes(16))
    await markers.close()
    assert database.deleted[3:] == [1]
