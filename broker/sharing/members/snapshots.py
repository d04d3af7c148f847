"""Old snapshots in the database: they keep dead rows there, over which each get walks (queue-sharing 10.1).

A transaction that somebody leaves open, a prepared one and a replication slot hold up the vacuum of all message tables,
those of other programs in the same database too. One member of the group looks, and the log tells who it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.sharing.database.database import Database

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
"""Between two looks."""

OLD_TRANSACTIONS: Final = 100_000
"""An age in transactions: so many dead rows make a get many times slower."""

_OLDEST: Final = """
SELECT age, whose FROM (
    SELECT greatest(age(backend_xid), age(backend_xmin)), xact_start,
           format('session pid=%s user=%s application=%s state=%s since=%s', pid, usename, application_name, state,
                  to_char(xact_start, 'YYYY-MM-DD HH24:MI:SS TZ'))
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    UNION ALL
    SELECT age(transaction), prepared, format('prepared transaction gid=%s user=%s', gid, owner)
        FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT age(xmin), '-infinity', format('replication slot name=%s', slot_name)
        FROM pg_replication_slots WHERE xmin IS NOT NULL
) AS snapshot (age, since, whose)
WHERE (SELECT min(name) FROM member WHERE state = 'ACTIVE' AND lease_until > clock_timestamp()) = $1
ORDER BY age DESC NULLS LAST, since LIMIT 1
"""
"""Nothing is found by a member that is not the first of those that live: one looks for all."""


class SnapshotWatch:
    """The look of one member for old snapshots. `reported` is the age that the log has last, 0 where all is well."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reported = 0

    async def run(self) -> None:
        """Look, for as long as this life of the member lasts."""
        while True:
            try:
                await self.look()
            except MQError as error:
                logger.debug("snapshots not looked at member=%s: %s", self._database.member, error)
            await anyio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Tell of the oldest snapshot if it is old, and again when its age has doubled. Raises CF_NOT_AVAILABLE."""
        async with self._database.look() as session:
            found = await session.fetchrow(_OLDEST, self._database.member)
        age = 0 if found is None else found["age"] or 0
        if age < OLD_TRANSACTIONS:
            if self.reported:
                logger.info("no old snapshot any more transactions=%d", age)
            self.reported = 0
        elif age >= 2 * self.reported:
            self.reported = age
            logger.warning(
                "old snapshot transactions=%d by=[%s]: dead rows stay in the database, and gets become slow: end it",
                age, found["whose"],
            )  # fmt: skip
