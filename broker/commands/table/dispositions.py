"""QSGDISP: which of the objects of one name a command is about, in a queue-sharing group (queue-sharing 2).

A queue manager has objects of its own (QMGR) and copies of those of the group (COPY), at most one of a name; the group
has what all members share (SHARED): queues, and what says who may do what (security 11); and what the copies are made
from (GROUP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.commands import errors
from broker.commands.table.forms import WordChoice
from broker.commands.table.kinds import KINDS
from broker.core.names.definitions import COPY, GROUP, OWN, SECURITY_SPACES, SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.commands.catalog import Catalog
    from broker.core.names.definitions import Definition

PRIVATE: Final = 4
LIVE: Final = 6
UNSAID: Final = LIVE  # of a command that changes something: it acts on what is there, but on no copy
ALL: Final = -1

_WORDS: Final = {"QMGR": OWN, "COPY": COPY, "SHARED": SHARED, "GROUP": GROUP}
OF_OBJECT: Final = WordChoice(_WORDS)
OF_SECURITY: Final = WordChoice({"QMGR": OWN, "SHARED": SHARED})
TO_ALTER: Final = WordChoice({**_WORDS, "PRIVATE": PRIVATE})
TO_CLEAR: Final = WordChoice({"PRIVATE": PRIVATE, "SHARED": SHARED})
TO_DISPLAY: Final = WordChoice({"LIVE": LIVE, "ALL": ALL, "PRIVATE": PRIVATE, **_WORDS})

_PRIVATE_ONES: Final = (OWN, COPY)


def meets(asked: int, disposition: int) -> bool:
    """True if an object with this disposition is among those that are asked for."""
    if asked == PRIVATE:
        return disposition in _PRIVATE_ONES
    return asked in (ALL, disposition) or (asked == LIVE and disposition != GROUP)


def place_of(kind: str, asked: int) -> int:
    """Return the disposition of objects that a command means with `asked`: structures belong to the group."""
    return GROUP if kind == "CFSTRUCT" else asked


def check_group(kind: str, asked: int, catalog: Catalog) -> None:
    """Refuse what needs a queue-sharing group where there is none, and what cannot be shared."""
    if place_of(kind, asked) in (COPY, SHARED, GROUP) and not catalog.group_name:
        what = kind if kind == "CFSTRUCT" else f"QSGDISP({TO_ALTER.plain(asked)})"
        raise errors.conflict(f"{what} needs a queue-sharing group, and {catalog.queue_manager.name} is in none")
    if asked == SHARED and kind != "QLOCAL" and KINDS[kind].space not in SECURITY_SPACES:
        raise errors.conflict(f"QSGDISP(SHARED) is for local queues and for security, not for a {kind}")


def of_name(space: str, name: str, catalog: Catalog) -> Iterator[Definition]:
    """All objects of this name: the queue manager's own, then those of the group."""
    for place in (OWN, SHARED, GROUP):
        found = catalog.find(space, name, place)
        if found is not None:
            yield found


def meant(kind: str, name: str, asked: int, catalog: Catalog) -> int:
    """The disposition of the object that a command means; where it does not say which, the queue manager's own, or the
    shared queue where it has nothing of that name. Of what says who may do what it is the one that holds: a shared one.
    """
    space = KINDS[kind].space
    if asked != UNSAID or kind == "CFSTRUCT":
        return place_of(kind, asked)
    if space in SECURITY_SPACES:
        return OWN if catalog.find(space, name, SHARED) is None else SHARED
    return OWN if kind != "QLOCAL" or catalog.find(space, name) is not None else SHARED


def occupant(kind: str, name: str, disposition: int, catalog: Catalog) -> Definition | None:
    """The object that has the name of one that is to be made. Of what says who may do what a name has one disposition
    (security 11.1).
    """
    space = KINDS[kind].space
    if space not in SECURITY_SPACES:
        return catalog.find(space, name, place_of(kind, disposition))
    return next(iter(sorted(of_name(space, name, catalog), key=lambda there: there.disposition != disposition)), None)


def kept(kind: str, name: str, asked: int, catalog: Catalog) -> Definition | None:
    """The record that a SET changes, None where it makes one. Raises CommandError (AMQ8150E) where there is one of
    another disposition than is asked for.
    """
    check_group(kind, asked, catalog)
    there = occupant(kind, name, meant(kind, name, asked, catalog), catalog)
    if there is not None and asked not in (UNSAID, there.disposition):
        raise errors.already_exists(f"It has QSGDISP({OF_OBJECT.plain(there.disposition)})")
    return there


def existing(kind: str, name: str, asked: int, catalog: Catalog) -> Definition:
    """The object that a command means (`meant`). Raises CommandError (AMQ8147E, AMQ8151E)."""
    space = KINDS[kind].space
    check_group(kind, asked, catalog)
    asked = meant(kind, name, asked, catalog)
    definition = catalog.find(space, name, place_of(kind, asked))
    if definition is None or not (kind == "CFSTRUCT" or meets(asked, definition.disposition)):
        others = [f"QSGDISP({OF_OBJECT.plain(each.disposition)})" for each in of_name(space, name, catalog)]
        raise errors.not_found(name, f"There is one with {' and one with '.join(others)}" if others else "")
    if definition.kind != kind:
        raise errors.different_type()
    return definition
