"""The shared repository: definitions that the members of a group have together (queue-sharing 2).

1.  A change is one transaction: it holds the definition that it is made from, of the version that is known here. Where
    another member was faster the repository is read again, and the change is made of what it has become.
2.  What is committed takes effect here before the command is answered, and is announced to all. Who hears of it, or has
    lost the line on which it is told, reads what has changed. Versions are never used again, so they alone say what.
3.  What says who may do what has one more version for all of it, which is read in one snapshot with it. Who is judged
    for what is shared is judged by the version that the group has at that moment (security 11.2).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio

from broker.commands.table.attributes import defaults
from broker.core.names.definitions import (
    GROUP,
    GROUP_VERSION,
    SECURITY_SPACES,
    SHARED,
    Clear,
    Define,
    Definition,
    Delete,
    single_changes,
)
from broker.engine.jobs.awaits import Changed
from broker.engine.jobs.jobs import Job
from broker.engine.mistakes import mistake
from broker.interface.port import Call
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.database import ATTEMPTS
from broker.sharing.database.errors import OvertakenError, StaleError
from broker.sharing.definitions.repository_change import (
    DISPOSITION_WORDS,
    NOTHING,
    STRUCTURE,
    Key,
    Known,
    RepositoryChange,
    clear_most,
    key_of,
    made_of,
    without_version,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.names.definitions import Change, SingleChange
    from broker.engine.shared_queues import GroupWork
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember
    from broker.storage.store import Done

logger = logging.getLogger(__name__)

OBJECTS_CHANGED: Final = "@objects "
"""With this begins what the database tells the members of a group when a definition has changed, and no name of a queue
(`announce_objects` in the schema).
"""

POLL_SECONDS: Final = 5.0
"""The seconds after which a change of users or rights is known to all members, if nobody is told of it."""

_NUMBERS: Final = {word: number for number, word in DISPOSITION_WORDS.items()}

_OBJECTS: Final = (
    "SELECT security.version AS security, known.version AS gone, disposition, space, name, kind, object.version, "
    "attributes FROM security LEFT JOIN ("
    "(SELECT disposition, space, name, kind, version, attributes FROM object UNION ALL "
    "SELECT 'SHARED', space, name, space, version, attributes FROM security_object) AS object "
    "FULL JOIN unnest($1::bigint[]) AS known (version) USING (version)) "
    "ON object.version IS NULL OR known.version IS NULL"
)
"""The changes since these versions were known, and the version of security in each row; one row at least."""

_STRUCTURES: Final = "SELECT name, attributes, version, status, backed_up FROM structure"


class Repository:
    """The definitions of the group, as one member knows them."""

    changed_objects: ClassVar[str] = _OBJECTS

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
        self.security = 0
        """The version of users and rights by which this member judges."""

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

    async def secure(self) -> None:
        async with self._database.look() as session:
            version = await session.fetchval("SELECT version FROM security")
        if version != self.security:
            await self.reload()

    async def check_security(self, session: DatabaseSession) -> None:
        """Raise StaleError where users or rights have changed since this member has read them."""
        await session.execute("SELECT still_secured($1)", self.security)

    async def look_up(self) -> None:
        await self.reload()
        made = anyio.Event()
        self._member.copies.refresh(made.set)
        await made.wait()

    async def refresh(self) -> None:
        """Bring the depths of the shared queues up to date."""
        async with self._database.look() as session:
            depths = await session.fetch("SELECT name, depth_of(name) FROM queue")
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
        """Read again what other members have changed, for as long as the member lives. Users and rights are looked at
        without a word, too.
        """
        while not self._member.stopping:
            with anyio.move_on_after(POLL_SECONDS):
                await self._news.wait()
            self._news = anyio.Event()
            announced, self._announced = self._announced, set()
            try:
                await (self._hear(announced) if announced else self.secure())
            except MQError as away:
                logger.debug("repository not read: %s", away)  # it is when there is a line again
            except Exception as error:
                mistake(error, "the reading of shared definitions")
            else:
                self._member.copies.refresh()
                self.check_users()

    def check_users(self) -> None:
        """Keep with the queue manager that it checks its users, once the group has any (security 1.3)."""
        if self._core.begins_to_check and not self._member.stopping:
            self._member.context.jobs.run(Job(_checking(self._core), Call(), lambda: None))

    async def check_users_at_start(self) -> None:
        """As `check_users`, before anybody connects."""
        if self._core.begins_to_check:
            await self._member.manager.define_at_start([self._core.as_checked()], "check of users")

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
            objects = await session.fetch(self.changed_objects, list(self._objects))
        for row in structures:
            self._take_structure(row)
        for row in objects:
            if row["gone"] is None and row["version"] is not None:
                key = Key(_NUMBERS[row["disposition"]], row["space"], row["name"])
                self._take(key, Definition(row["kind"], key.name, json.loads(row["attributes"])), row["version"])
        there = {row["name"] for row in structures}
        gone = [key for key in self._known if key.space == STRUCTURE and key.name not in there]
        gone += [self._objects[row["gone"]] for row in objects if row["gone"] in self._objects]  # and not replaced
        for key in gone:
            self._forget(key)
        self.security = objects[0]["security"]
        self._read_until = number
        self._member.context.perform()

    def _take(self, key: Key, definition: Definition, version: int) -> None:
        """Let a definition of the repository take effect here."""
        self._objects.pop(self._known.get(key, NOTHING).version, None)
        self._objects[version] = key
        self._known[key] = Known(definition, version)
        if key.disposition == SHARED:
            self._apply(Define(definition, version))
        else:
            attributes = {**definition.attributes, GROUP_VERSION: version}
            self._core.objects.group_definitions[key.space, key.name] = Definition(
                definition.kind, key.name, attributes
            )

    def _take_structure(self, row: Any) -> None:
        key = Key(GROUP, STRUCTURE, row["name"])
        if self._known.get(key, NOTHING).version == row["version"]:
            self._core.objects.structure(key.name).backed_up = row["backed_up"]
            return
        attributes = defaults(STRUCTURE) | json.loads(row["attributes"])
        definition = Definition(STRUCTURE, key.name, attributes)
        self._known[key] = Known(definition, row["version"])
        self._core.objects.define_structure(definition, failed=row["status"] != "ACTIVE", backed_up=row["backed_up"])

    def _forget(self, key: Key) -> None:
        self._objects.pop(self._known.pop(key).version, None)
        if key.disposition == SHARED:
            self._apply(Delete(key.space, key.name, SHARED))
        elif key.space == STRUCTURE:
            self._core.objects.forget_structure(key.name)
        else:
            self._core.objects.group_definitions.pop((key.space, key.name), None)

    def _apply(self, change: SingleChange) -> None:
        """Let a change take effect, and tell those who follow the definitions."""
        self._core.apply(change, self._member.manager.clock.monotonic())
        self._member.context.tell_followers(change)

    # Changing

    def _known_of(self, change: SingleChange) -> Known:
        """Return the definition from which a change is made."""
        return self._known.get(key_of(change), NOTHING)

    def change(self, change: Change, then: Done) -> None:
        steps = [RepositoryChange(each, self._known_of(each)) for each in single_changes(change)]

        async def work() -> None:
            await self._make(steps)
            self._member.context.perform()
            await self._member.copies.make()

        self._member.ask(work, "a change of shared definitions", then)

    async def _make(self, steps: Sequence[RepositoryChange]) -> None:
        """Make changes, and let them take effect here.

        Raises OBJECT_ALREADY_EXISTS (2100), UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042), Q_NOT_EMPTY (2055),
        CF_STRUC_ERROR (2349), OBJECT_CHANGED (2041) where others change it all the time, and those of the database.
        """
        async with self._lock:
            for _ in range(ATTEMPTS):
                try:
                    await self._write(steps)
                except OvertakenError:
                    await self._read()
                    steps = [made_of(step, self._known_of(step.change)) for step in steps]
                else:
                    return
        name = key_of(steps[0].change).name
        raise MQError(MQRC.OBJECT_CHANGED, f"{name} is being changed by other members: try again")

    async def _write(self, steps: Sequence[RepositoryChange]) -> None:
        secured = any(step.change.space in SECURITY_SPACES for step in steps)

        async def work(session: DatabaseSession) -> tuple[int, list[int]]:
            security = await session.fetchval("SELECT change_security()") if secured else 0
            return security, [await written(session, step) for step in steps]

        for step in steps:
            await clear_most(self._database, step)
        security, versions = await self._database.transact(work)
        if security == self.security + 1:  # else others have changed something that is not known here yet
            self.security = security
        for step, version in zip(steps, versions, strict=True):
            await self._take_effect(step.change, version)

    async def _take_effect(self, change: SingleChange, version: int) -> None:
        key = key_of(change)
        if isinstance(change, Delete):
            self._forget(key)
        elif isinstance(change, Clear):
            self._apply(change)
            self._core.objects.shared_queues[key.name].depth = 0
        elif key.space == STRUCTURE:
            await self._read()
        else:
            self._take(key, without_version(change.definition), version)


async def _checking(core: Manager) -> int:
    """As a job: while it looks no other change is being made."""
    if not core.checked:
        await Changed(core.as_checked())
    return 0
