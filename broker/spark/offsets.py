"""The offset of a stream that consumes: `{"v": 1, "consumer": uuid, "lineage": hex, "seq": n}`.

`url` beside these says where the queue manager was when the offset was made: for `finish`, which Spark tells nothing
else of the query's options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ClaimOffset:
    """All claims of a consumer up to a sequence. `lineage` is that of the checkpoint; "" before its first batch."""

    uuid: str
    lineage: str
    sequence: int
    url: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it in its checkpoint."""
        offset = {"v": VERSION, "consumer": self.uuid, "lineage": self.lineage, "seq": self.sequence}
        return {**offset, "url": self.url} if self.url else offset

    @classmethod
    def from_json(cls, offset: dict[str, Any]) -> Self:
        """Return the offset in a checkpoint. Raises ValueError for what is no offset of this kind."""
        if "consumer" not in offset:
            raise ValueError(f"the checkpoint is not one of a stream that consumes: its offset is {offset!r}")
        if offset.get("v") != VERSION:
            raise ValueError(f"the offset {offset!r} in the checkpoint is of another version than {VERSION}")
        return cls(offset["consumer"], offset["lineage"], offset["seq"], offset.get("url", ""))
