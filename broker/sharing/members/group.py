"""The queue-sharing group that a queue manager joins."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.secret_files import check_secret_file

if TYPE_CHECKING:
    from pathlib import Path

    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import SharedQueues

LEASE_SECONDS: Final = 10.0
LEASE_SECONDS_MIN: Final = 1.0
LEASE_SECONDS_MAX: Final = 600.0
"""The lease of a member: usual, shortest and longest."""

NEEDS_EXTRA: Final = "a queue-sharing group needs asyncpg: pip install 'evermq[postgres]'"

_NAME = re.compile("[A-Z][A-Z0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class QueueSharingGroup:
    """A queue-sharing group: `QueueManager.open(name="QM1", data="path", group=QueueSharingGroup("GRP1", dsn))`.

    `name` has up to four upper-case letters and digits, a letter first, and differs from the names of all queue
    managers. `dsn` is that of a PostgreSQL database: `postgresql://user@host:5432/database`. The group has a schema of
    its own there, which the first member makes. `lease`: after so many seconds without a sign of life from a member,
    from 1 to 600, its peers recover what it has left. `dsn_password_file` has the password of the database's user, read
    for each session; else it is where the dsn, PGPASSWORD or ~/.pgpass say. Raises ValueError, also for such a file
    that others may write.
    """

    name: str
    dsn: str = field(repr=False)  # it may have a password
    lease: float = LEASE_SECONDS
    dsn_password_file: Path | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a queue-sharing group cannot be named {self.name!r}: one to four of A-Z and 0-9, a letter first"
            )
        if not LEASE_SECONDS_MIN <= self.lease <= LEASE_SECONDS_MAX:
            raise ValueError(f"lease={self.lease!r}: from {LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:g} seconds")
        if self.dsn_password_file is not None:
            check_secret_file(self.dsn_password_file)

    @property
    def schema(self) -> str:
        """The schema of the group in its database."""
        return f"evermq_{self.name.lower()}"

    def member(self, manager: QueueManager) -> SharedQueues:
        """The shared queues, for this member. Raises ImportError that names the extra where asyncpg is missing."""
        try:
            import asyncpg  # noqa: F401  # not part of the core install
        except ImportError as error:
            raise ImportError(NEEDS_EXTRA) from error
        from broker.sharing.members.group_member import GroupMember

        return GroupMember(manager, self)
