"""A change of a definition in the shared repository: how it is written, and what becomes of it where another member was
faster.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.names.definitions import GROUP, GROUP_VERSION, SECURITY_SPACES, SHARED, Define, Definition, Delete
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.names.definitions import SingleChange
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession

STRUCTURE: Final = "CFSTRUCT"
DISPOSITION_WORDS: Final = {SHARED: "SHARED", GROUP: "GROUP"}
SLICE: Final = 5000
"""Messages that are cleared in one transaction."""

_CHECK_CLEARING: Final = "SELECT check_clearing($1, $2, $3, $4)"
_CLEAR: Final = "SELECT clear_slice($1, NULL, $2)"
_NEEDS_CLOSED: Final = ("USAGE", "CFSTRUCT")
_RECORD: Final = "AUTHREC"
_LISTS: Final = ("USERLIST", "ADDRLIST")


class Key(NamedTuple):
    """The key of a definition in the repository: SHARED or GROUP, the latter for structures too; name space and
    name.
    """

    disposition: int
    space: str
    name: str


class Known(NamedTuple):
    """A definition as this member knows it: None, of version 0, where there is none."""

    definition: Definition | None
    version: int


class RepositoryChange(NamedTuple):
    """A change, and the definition that it is made from."""

    change: SingleChange
    before: Known


NOTHING: Final = Known(None, 0)


def key_of(change: SingleChange) -> Key:
    return Key(GROUP if change.space == STRUCTURE else change.disposition, change.space, change.name)


def without_version(definition: Definition) -> Definition:
    attributes = {keyword: value for keyword, value in definition.attributes.items() if keyword != GROUP_VERSION}
    return Definition(definition.kind, definition.name, attributes)


def made_of(step: RepositoryChange, now: Known) -> RepositoryChange:
    """The same change of what another member has made of it meanwhile. Raises OBJECT_ALREADY_EXISTS (2100),
    UNKNOWN_OBJECT_NAME (2085).
    """
    change, before = step.change, step.before.definition
    if isinstance(change, Define) and change.space == _RECORD:  # one that is not there is one of no rights
        nothing = Definition(_RECORD, change.name, change.definition.attributes | {"AUTHLIST": 0})
        return RepositoryChange(_merged(change, before or nothing, now.definition or nothing), now)
    if before is None and now.definition is not None:
        raise MQError(MQRC.OBJECT_ALREADY_EXISTS, "another member has defined it meanwhile")
    if before is not None and now.definition is None:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, change.name)
    if not isinstance(change, Define) or before is None or now.definition is None:
        return RepositoryChange(change, now)
    return RepositoryChange(_merged(change, before, now.definition), now)


def _merged(change: Define, before: Definition, now: Definition) -> Define:
    """The definition as it is now, with what the change makes of that before."""
    wanted = change.definition
    given = {
        word: _both(word, before.attributes.get(word), value, now.attributes.get(word, value))
        for word, value in wanted.attributes.items()
        if before.attributes.get(word) != value
    }
    return Define(Definition(wanted.kind, wanted.name, now.attributes | given), force=change.force)


def _both(word: str, before: int | str | None, wanted: int | str, now: int | str) -> int | str:
    """The value of an attribute that two members have changed: of rights, and of those whom a rule blocks, with what
    each has added and without what either has removed; of others the later one.
    """
    if word == "AUTHLIST":
        was, to_be = int(before or 0), int(wanted)
        return (int(now) | (to_be & ~was)) & ~(was & ~to_be)
    if word in _LISTS:
        was_listed, listed = str(before or "").split(","), str(wanted).split(",")
        left = [each for each in str(now).split(",") if each in listed or each not in was_listed]
        return ",".join(filter(None, dict.fromkeys([*left, *(each for each in listed if each not in was_listed)])))
    return wanted


async def clear_most(database: Database, step: RepositoryChange) -> None:
    """Clear a shared queue that is to be empty, but for the last slice of its messages, in transactions of its own,
    which are short however many there are. Who asks for it again goes on where it has broken off. Raises OBJECT_IN_USE
    (2042).
    """
    change, key, closing = step.change, key_of(step.change), False
    if isinstance(change, Define) or key.disposition != SHARED or key.space in SECURITY_SPACES:
        return
    if isinstance(change, Delete):
        if not change.purge:
            return
        closing = change.closing

    async def check(session: DatabaseSession) -> None:
        await session.execute(_CHECK_CLEARING, key.name, step.before.version, not closing, closing)

    async def clear(session: DatabaseSession) -> int:
        return int(await session.fetchval(_CLEAR, [key.name], SLICE))

    await database.transact(check)
    while await database.transact(clear) == SLICE:
        pass


async def written(session: DatabaseSession, step: RepositoryChange) -> int:
    """Write a change in the repository; the new version of what it defines."""
    change, before, key = step.change, step.before, key_of(step.change)
    if isinstance(change, Define):
        definition = without_version(change.definition)
        return await _define(session, key, definition, before, force=change.force)
    if isinstance(change, Delete):
        await _delete(session, key, change, before)
    else:
        await session.execute("SELECT clear_queue($1, $2)", key.name, before.version)
    return 0


async def _define(session: DatabaseSession, key: Key, definition: Definition, before: Known, *, force: bool) -> int:
    attributes = json.dumps(definition.attributes)
    if key.space == STRUCTURE:
        return int(await session.fetchval("SELECT define_structure($1, $2, $3)", key.name, attributes, before.version))
    if key.space in SECURITY_SPACES:
        made = await session.fetchval("SELECT define_security($1, $2, $3, $4)", *key[1:], attributes, before.version)
        return int(made)
    version = await session.fetchval(
        "SELECT define_object($1, $2, $3, $4, $5, $6)",
        DISPOSITION_WORDS[key.disposition], key.space, key.name, definition.kind, attributes, before.version,
    )  # fmt: skip
    if key.disposition == SHARED and before.definition is not None:
        was, is_now = before.definition.attributes, definition.attributes
        moved = was.get("CFSTRUCT") != is_now.get("CFSTRUCT")
        closed = any(was.get(word) != is_now.get(word) for word in _NEEDS_CLOSED)
        alone = bool(was.get("SHARE")) and not is_now.get("SHARE")
        if moved or (closed and not force) or (alone and not force):
            await session.execute(
                "SELECT check_unused($1, $2, $3, $4)", key.name, closed, 1 if alone and not force else -1, closed
            )
    return int(version)


async def _delete(session: DatabaseSession, key: Key, change: Delete, before: Known) -> None:
    if key.space in SECURITY_SPACES:
        await session.execute("SELECT delete_security($1, $2, $3)", *key[1:], before.version)
    elif key.disposition == SHARED:
        await session.execute(
            "SELECT delete_queue($1, $2, $3, $4)", key.name, before.version, change.purge, change.closing
        )
    elif key.space == STRUCTURE:
        await session.execute("SELECT delete_structure($1, $2)", key.name, before.version)
    else:
        await session.execute("SELECT delete_object('GROUP', $1, $2, $3)", key.space, key.name, before.version)
