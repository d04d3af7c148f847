"""Definitions of objects and the changes that commands make to them.

A definition is data: its attributes are held under their MQSC keywords with MQ's own integer values (`"PUT": 0` is
PUT(ENABLED), `"TRIGTYPE": 2` is EVERY) or, for character attributes, stripped strings. Which keywords exist, their
ranges and defaults is the business of the attribute table in `broker.commands`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Attributes: TypeAlias = dict[str, int | str]

_UNDATED: Attributes = dict.fromkeys(("ALTDATE", "ALTTIME", "CRDATE", "CRTIME"), "")
QUEUE_KINDS = ("QLOCAL", "QALIAS", "QREMOTE", "QMODEL")


@dataclass(frozen=True, slots=True)
class Definition:
    """One object: its kind is the MQSC noun ("QLOCAL", "PROCESS", "QMGR"), all queue kinds share one name space."""

    kind: str
    name: str
    attributes: Attributes

    @property
    def space(self) -> str:
        """The name space: "QUEUE" for every kind of queue, else the kind."""
        return "QUEUE" if self.kind in QUEUE_KINDS else self.kind

    def same_as(self, other: Definition) -> bool:
        """Whether the two differ in nothing but when they were made."""
        return self.kind == other.kind and {**self.attributes, **_UNDATED} == {**other.attributes, **_UNDATED}


@dataclass(frozen=True, slots=True)
class Define:
    """Store this definition, new or in place of the one of the same name; messages stay.

    `number` identifies the object to its messages in the store; the queue manager gives it. `alters`: there was a local
    queue of this name and number when the change was made, which DEPTH had switched off `switch_offs` times.
    """

    definition: Definition
    number: int = 0
    alters: bool = False
    switch_offs: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Forget the object of that name space; a queue's messages go with it."""

    space: str
    name: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove every message of a local queue."""

    name: str


Change: TypeAlias = Define | Delete | Clear
