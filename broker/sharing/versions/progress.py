"""The progress of an upgrade, which is a row in the old tables until its last step, and what is known before it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import asyncpg

MESSAGES_A_SECOND: Final = 15_000
BYTES_A_SECOND: Final = 30_000_000
"""That are copied on a machine with two processors (docs/how-to/queue-sharing.md)."""

BEGUN: Final = "begun"
"""Members are kept out."""
MADE: Final = "made"
"""The new tables are there, with everything but messages. These come in slices."""
COPIED: Final = "copied"
COMPARED: Final = "compared"
"""All that remains is the last step."""

_READ: Final = "SELECT value FROM {}.properties WHERE name = 'upgrade'"
_WRITE: Final = """
INSERT INTO {}.properties VALUES ('upgrade', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of an upgrade: its step, and the last message that was copied. `oldest` is what the old tables said
    of members that may join.
    """

    before: int
    after: int
    oldest: str
    messages: int
    step: str = BEGUN
    copied: int = 0
    queue: str = ""
    place: int = -1
    persistent: bool = False

    @classmethod
    async def read(cls, session: asyncpg.Connection, schema: str) -> Self | None:
        """The progress of an upgrade of the group in this schema; None where none is under way."""
        text = await session.fetchval(_READ.format(schema))
        return None if text is None else cls(**json.loads(text))

    async def write(self, session: asyncpg.Connection, schema: str) -> None:
        """Keep it, in the transaction of what it tells."""
        await session.execute(_WRITE.format(schema), json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """The plan of an upgrade. `copied`: messages that an upgrade which was broken off has copied already;
    None: there is no such.
    """

    schema: str
    before: int
    after: int
    messages: int
    units: int
    bytes: int
    copied: int | None

    @property
    def minutes(self) -> int:
        """The time that the messages may take, rounded up."""
        share = 1 - (self.copied or 0) / max(1, self.messages)
        seconds = max(self.messages / MESSAGES_A_SECOND, self.bytes / BYTES_A_SECOND) * share
        return max(1, -int(-seconds // 60))
