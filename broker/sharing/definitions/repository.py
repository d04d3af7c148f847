"""The shared repository: definitions that the members of a group have together (queue-sharing 2).

1.  A change is one transaction: it holds the definition that it is made from, of the version that is known here. Where
    another member was faster the repository is read again, and the change is made of what it has become.
2.  What is committed takes effect here before the command is answered, and is announced to all. Who hears of it, or has
    lost the line on which it is told, reads what has changed. Versions are never used again, so they alone say what.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from broker.commands.table.attributes import defaults
from broker.core.names.definitions import GROUP, GROUP_VERSION, SHARED, Define, Definition, Delete
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.database import ATTEMPTS
from broker.sharing.database.errors import OvertakenError, StaleError

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.names.definitions import SingleChange
    from broker.engine.shared_queues import GroupWork
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember
    from broker.storage.store import Done

logger = logging.getLogger(__name__)

OBJECTS_CHANGED: Final = "@objects "
"""With this begins what the database tells the members of a group when a definition has changed, and no name of a queue
(`announce_objects` in the schema).
"""

_STRUCTURE: Final = "CFSTRUCT"
_WORDS: Final = {SHARED: "SHARED", GROUP: "GROUP"}
_NUMBERS: Final = {word: number for number, word in _WORDS.items()}
_NEEDS_CLOSED: Final = ("USAGE", "CFSTRUCT")

_OBJECTS: Final = (
    "SELECT known.version AS gone, disposition, space, name, kind, object.version, attributes "
    "FROM object FULL JOIN unnest($1::bigint[]) AS known (version) USING (version) "
    "WHERE object.version IS NULL OR known.version IS NULL"
)
_STRUCTURES: Final = "SELECT name, attributes, version, status, backed_up FROM structure"


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


_NOTHING: Final = Known(None, 0)


class Repository:
    """The definitions of the group, as one member knows them."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._known: dict[Key, Known] = {}
        self._objects: dict[int, Key] = {}  # by version; structures are not among them
        self._lock = anyio.Lock()  # what is read is not older than what has been written here
        self._begun = 0  # readings
        self._read_until = 0  # the last of them that came to its end
        self._announced: set[int] = set()
        self._news = anyio.Event()

    @property
    def _core(self) -> Manager:
        return self._member.core

    # Reading

    async def load(self) -> None:
        """Take over what is defined."""
        await self.reload()
        await self.refresh()

    async def reload(self) -> None:
        """Take over what has changed until now. All that ask while it is being read share the next reading."""
        begun = self._begun
        async with self._lock:
            if self._read_until <= begun:
                await self._read()

    async def look_up(self) -> None:
        await self.reload()
        made = anyio.Event()
        self._member.copies.refresh(made.set)
        await made.wait()

    async def refresh(self) -> None:
        """Bring the depths of the shared queues up to date."""
        async with self._database.look() as session:
            depths = await session.fetch("SELECT name, depth FROM queue")
        for name, depth in depths:
            queue = self._member.shared(name)
            if queue is not None:
                queue.depth = depth

    async def up_to_date(self, work: GroupWork[None]) -> None:
        """Make a call, and again when it turns out that it relied on a definition that another member has changed."""
        for _ in range(ATTEMPTS - 1):
            try:
                await work()
            except StaleError:
                await self.reload()
            else:
                return
        await work()

    async def run(self) -> None:
        """Read again what other members have changed, for as long as the member lives."""
        while not self._member.stopping:
            await self._news.wait()
            self._news = anyio.Event()
            announced, self._announced = self._announced, set()
            try:
                await self._hear(announced)
            except MQError as away:
                logger.debug("repository not read: %s", away)  # it is when there is a line again
            except Exception as error:
                mistake(error, "the reading of shared definitions")
            else:
                self._member.copies.refresh()

    def notified(self, change: int = 0) -> None:
        """Something has changed, or may have: `announce_objects` in the schema says what."""
        self._announced.add(change)
        self._news.set()

    async def _hear(self, announced: set[int]) -> None:
        """Take over what was announced, unless it is known: it was made here, or has been looked up."""
        async with self._lock:
            if any(change == 0 or (abs(change) in self._objects) != (change > 0) for change in announced):
                await self._read()

    async def _read(self) -> None:
        self._begun += 1
        number = self._begun
        async with self._database.look() as session:
            structures = await session.fetch(_STRUCTURES)
            objects = await session.fetch(_OBJECTS, list(self._objects))
        for row in structures:
            self._take_structure(row)
        for row in objects:
            if row["gone"] is None:
                key = Key(_NUMBERS[row["disposition"]], row["space"], row["name"])
                self._take(key, Definition(row["kind"], key.name, json.loads(row["attributes"])), row["version"])
        there = {row["name"] for row in structures}
        gone = [key for key in self._known if key.space == _STRUCTURE and key.name not in there]
        gone += [self._objects[row["gone"]] for row in objects if row["gone"] in self._objects]  # and not replaced
        for key in gone:
            self._forget(key)
        self._read_until = number
        self._member.context.perform()

    def _take(self, key: Key, definition: Definition, version: int) -> None:
        """Let a definition of the repository take effect here."""
        self._objects.pop(self._known.get(key, _NOTHING).version, None)
        self._objects[version] = key
        self._known[key] = Known(definition, version)
        if key.disposition == SHARED:
            self._core.apply(Define(definition, version), self._member.manager.clock.monotonic())
        else:
            attributes = {**definition.attributes, GROUP_VERSION: version}
            self._core.objects.group_definitions[key.space, key.name] = Definition(
                definition.kind, key.name, attributes
            )

    def _take_structure(self, row: Any) -> None:
        key = Key(GROUP, _STRUCTURE, row["name"])
        if self._known.get(key, _NOTHING).version == row["version"]:
            self._core.objects.structure(key.name).backed_up = row["backed_up"]
            return
        attributes = defaults(_STRUCTURE) | json.loads(row["attributes"])
        definition = Definition(_STRUCTURE, key.name, attributes)
        self._known[key] = Known(definition, row["version"])
        self._core.objects.define_structure(definition, failed=row["status"] != "ACTIVE", backed_up=row["backed_up"])

    def _forget(self, key: Key) -> None:
        self._objects.pop(self._known.pop(key).version, None)
        if key.disposition == SHARED:
            self._core.apply(Delete(key.space, key.name, SHARED), self._member.manager.clock.monotonic())
        elif key.space == _STRUCTURE:
            self._core.objects.forget_structure(key.name)
        else:
            self._core.objects.group_definitions.pop((key.space, key.name), None)

    # Changing

    def owns(self, change: SingleChange) -> bool:
        """True if a change is one of the repository."""
        return _key(change).disposition in _WORDS

    def _known_of(self, change: SingleChange) -> Known:
        """Return the definition from which a change is made."""
        return self._known.get(_key(change), _NOTHING)

    def change(self, change: SingleChange, then: Done) -> None:
        before = self._known_of(change)

        async def work() -> None:
            await self._make(change, before)
            self._member.context.perform()
            await self._member.copies.make()

        self._member.ask(work, "a change of shared definitions", then)

    async def _make(self, change: SingleChange, before: Known) -> None:
        """Make a change of what was `before`, and let it take effect here.

        Raises OBJECT_ALREADY_EXISTS (2100), UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042), Q_NOT_EMPTY (2055),
        CF_STRUC_ERROR (2349), OBJECT_CHANGED (2041) where others change it all the time, and those of the database.
        """
        async with self._lock:
            for _ in range(ATTEMPTS):
                try:
                    await self._write(change, before)
                except OvertakenError:
                    await self._read()
                    now = self._known_of(change)
                    change, before = _made_of(change, before.definition, now), now
                else:
                    return
        raise MQError(MQRC.OBJECT_CHANGED, f"{_key(change).name} is being changed by other members: try again")

    async def _write(self, change: SingleChange, before: Known) -> None:
        key = _key(change)
        if isinstance(change, Define):
            definition = _without_version(change.definition)
            version = await self._database.transact(
                lambda session: _define(session, key, definition, before, force=change.force), _nothing
            )
            if key.space == _STRUCTURE:
                await self._read()
            else:
                self._take(key, definition, version)
        elif isinstance(change, Delete):
            await self._database.transact(lambda session: _delete(session, key, change, before), _nothing)
            self._forget(key)
        else:
            await self._database.transact(
                lambda session: session.execute("SELECT clear_queue($1, $2)", key.name, before.version), _nothing
            )
            self._core.apply(change, self._member.manager.clock.monotonic())
            self._core.objects.shared_queues[key.name].depth = 0


def _key(change: SingleChange) -> Key:
    if isinstance(change, Define):
        definition = change.definition
        return Key(GROUP if definition.kind == _STRUCTURE else definition.disposition, definition.space, change.name)
    return Key(change.disposition, change.space, change.name)


def _without_version(definition: Definition) -> Definition:
    attributes = {keyword: value for keyword, value in definition.attributes.items() if keyword != GROUP_VERSION}
    return Definition(definition.kind, definition.name, attributes)


def _made_of(change: SingleChange, before: Definition | None, now: Known) -> SingleChange:
    """The same change of what another member has made of it meanwhile. Raises OBJECT_ALREADY_EXISTS (2100),
    UNKNOWN_OBJECT_NAME (2085).
    """
    if before is None and now.definition is not None:
        raise MQError(MQRC.OBJECT_ALREADY_EXISTS, "another member has defined it meanwhile")
    if before is not None and now.definition is None:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, change.name)
    if not isinstance(change, Define) or before is None or now.definition is None:
        return change
    wanted = change.definition
    given = {word: value for word, value in wanted.attributes.items() if before.attributes.get(word) != value}
    return Define(Definition(wanted.kind, wanted.name, now.definition.attributes | given), force=change.force)


async def _define(session: DatabaseSession, key: Key, definition: Definition, before: Known, *, force: bool) -> int:
    attributes = json.dumps(definition.attributes)
    if key.space == _STRUCTURE:
        return int(await session.fetchval("SELECT define_structure($1, $2, $3)", key.name, attributes, before.version))
    version = await session.fetchval(
        "SELECT define_object($1, $2, $3, $4, $5, $6)",
        _WORDS[key.disposition], key.space, key.name, definition.kind, attributes, before.version,
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
    if key.disposition == SHARED:
        await session.execute(
            "SELECT delete_queue($1, $2, $3, $4)", key.name, before.version, change.purge, change.closing
        )
    elif key.space == _STRUCTURE:
        await session.execute("SELECT delete_structure($1, $2)", key.name, before.version)
    else:
        await session.execute("SELECT delete_object('GROUP', $1, $2, $3)", key.space, key.name, before.version)


def _nothing() -> None:
    """A change has no effect in memory before it is committed."""
