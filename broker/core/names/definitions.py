"""Definitions of objects and the changes that commands make to them.

A definition is data: its attributes are held under their MQSC keywords with MQ's own integer values (`"PUT": 0` is
PUT(ENABLED), `"TRIGTYPE": 2` is EVERY) or, for character attributes, stripped strings. Which keywords exist, their
ranges and defaults is the business of the attribute table in `broker.commands`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Attributes: TypeAlias = dict[str, int | str]

_UNDATED: Attributes = dict.fromkeys(("ALTDATE", "ALTTIME", "CRDATE", "CRTIME"), "")
OWN, COPY, SHARED, GROUP = range(4)
"""Dispositions (QSGDISP): an object of this queue manager alone, its copy of one of the group, one that all members of
the queue-sharing group have together, and what such copies are made from (queue-sharing 2, security 11).
"""
GROUP_VERSION = "GROUPVER"
"""The attribute that tells which version of what it is copied from a COPY is of. No command knows it."""
QUEUE_KINDS = ("QLOCAL", "QALIAS", "QREMOTE", "QMODEL")
SECURITY_SPACES = ("USER", "AUTHREC", "CHANNEL", "CHLAUTH", "AUTHINFO")
"""The name spaces of what says who may do what."""


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

    @property
    def disposition(self) -> int:
        """QSGDISP. A definition kept by an earlier version has none: it is of this queue manager alone."""
        return int(self.attributes.get("QSGDISP", OWN))

    @property
    def shared(self) -> bool:
        """True if the members of the queue-sharing group share what it defines: QSGDISP(SHARED)."""
        return self.attributes.get("QSGDISP") == SHARED

    def same_as(self, other: Definition) -> bool:
        """True if the two differ in nothing but when they were made."""
        return self.kind == other.kind and {**self.attributes, **_UNDATED} == {**other.attributes, **_UNDATED}


@dataclass(frozen=True, slots=True)
class Define:
    """Store this definition, new or in place of the one of the same name; messages stay.

    `number` identifies the object to its messages in the store; the queue manager gives it. Of a shared queue it is the
    version of the definition in the repository. `alters`: there was a local
    queue of this name and number when the change was made, which DEPTH had switched off `switch_offs` times. `force`:
    of a shared queue, even where handles that are open in the group depend on it.
    """

    definition: Definition
    number: int = 0
    alters: bool = False
    switch_offs: int = 0
    force: bool = False

    @property
    def name(self) -> str:
        """The name of what is defined."""
        return self.definition.name

    @property
    def space(self) -> str:
        """The name space of what is defined."""
        return self.definition.space

    @property
    def disposition(self) -> int:
        """QSGDISP of what is defined."""
        return self.definition.disposition


@dataclass(frozen=True, slots=True)
class Delete:
    """Forget the object of that name space; a queue's messages go with it.

    `disposition` is that of the object. What is shared goes only if it holds no messages, unless it is to be purged,
    and is open nowhere, unless `closing` a dynamic queue deletes it.
    """

    space: str
    name: str
    disposition: int = OWN
    purge: bool = False
    closing: bool = False
    records: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove every message of a local queue."""

    name: str
    disposition: int = OWN

    @property
    def space(self) -> str:
        """Only queues are cleared."""
        return "QUEUE"


@dataclass(frozen=True, slots=True)
class Together:
    """Changes that are one transaction: all are made, or none is. All are of the queue manager's own objects, or all of
    the group's. Local queues of its own are not deleted so.
    """

    changes: tuple[Define | Delete, ...]


SingleChange: TypeAlias = Define | Delete | Clear
Change: TypeAlias = SingleChange | Together


def of_group(change: SingleChange) -> bool:
    """True if a change is one of the shared repository: of what has QSGDISP(SHARED) or (GROUP), or of a structure."""
    return change.disposition in (SHARED, GROUP) or change.space == "CFSTRUCT"


def together(changes: Iterable[Define | Delete]) -> tuple[Change, ...]:
    """Return changes as transactions: one of what belongs to the group, which others change too; then the rest."""
    several = tuple(changes)
    parts = (tuple(filter(of_group, several)), tuple(each for each in several if not of_group(each)))
    return tuple(part[0] if len(part) == 1 else Together(part) for part in parts if part)


def single_changes(change: Change) -> tuple[SingleChange, ...]:
    """Return the changes of which one consists."""
    return change.changes if isinstance(change, Together) else (change,)
