"""The copies that a member has of the objects of its group with QSGDISP(GROUP) (queue-sharing 2).

Each knows the version that it was made from: it is made anew when there is another. In between it may be altered or
deleted alone. A member that was away makes and deletes copies when it starts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from broker.core.names.definitions import COPY, GROUP_VERSION, Define, Definition, Delete
from broker.engine.admin.changes import Changes
from broker.engine.jobs.awaits import Changed
from broker.engine.jobs.jobs import Job
from broker.interface.port import Call
from broker.mqi.errors import MQError
from broker.storage.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.core.names.definitions import Change
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)


class Copies:
    """The copies of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._made: dict[tuple[str, str], int | str] = {}  # the versions of which there is a copy, or need be none
        self._names: set[tuple[str, str]] | None = None  # all that copies may have; None: not looked for yet

    def missing(self) -> Iterator[Change]:
        """Yield the changes after which there is a copy of each object, and none of others."""
        objects = self._member.core.objects
        if self._names is None:
            self._names = {key for key, own in objects.definitions.items() if own.disposition == COPY}
        self._names |= objects.group_definitions.keys()
        for (space, name), original in objects.group_definitions.items():
            version = original.attributes.get(GROUP_VERSION, 0)  # structures have no copies
            if not version or self._made.get((space, name)) == version:
                continue
            own = objects.own(space, name)
            if own is not None and not _is_older(own, original):
                self._made[space, name] = version
            else:
                yield Define(Definition(original.kind, name, original.attributes | {"QSGDISP": COPY}))
        for space, name in self._names - objects.group_definitions.keys():
            own = objects.own(space, name)
            if own is not None and own.disposition == COPY and not self._in_use(own):
                yield Delete(space, name)

    async def make_at_start(self) -> None:
        """Make what is missing before anybody connects."""
        missing = list(self.missing())
        await self._member.manager.define_at_start(missing, "copies of objects of the group")
        self._note(missing)

    async def make(self) -> None:
        """Make what is missing as part of the change of definitions that is being made."""
        for change in list(self.missing()):
            outcome: list[Exception | None] = []
            made = anyio.Event()

            def then(
                error: Exception | None, outcome: list[Exception | None] = outcome, made: anyio.Event = made
            ) -> None:
                outcome.append(error)
                made.set()

            Changes(self._member.context).make(change, then)
            await made.wait()
            self._tell(change, outcome[0])

    def refresh(self, then: Callable[[], None] = lambda: None) -> None:
        """Make what is missing, when no other change is being made; then call `then`."""
        if self._member.stopping or next(self.missing(), None) is None:
            then()
        else:
            self._member.context.jobs.run(Job(self._making(), Call(), then))

    async def _making(self) -> None:
        for change in list(self.missing()):
            try:
                await Changed(change)
            except (MQError, StoreError) as error:
                self._tell(change, error)
            else:
                self._tell(change, None)

    def _tell(self, change: Change, error: Exception | None) -> None:
        if error is None:
            self._note((change,))
        else:
            logger.warning("copy not made: %s", error)

    def _note(self, made: Iterable[Change]) -> None:
        """These copies are there now. One that is then deleted here is not made again before the member starts."""
        for change in made:
            if isinstance(change, Define):
                copy = change.definition
                self._made[copy.space, copy.name] = copy.attributes[GROUP_VERSION]

    def _in_use(self, copy: Definition) -> bool:
        """True if a copy cannot be deleted, as it holds messages or is open."""
        status = self._member.manager.catalog.status(copy)
        busy = bool(status.get("CURDEPTH") or status.get("HANDLES") or status.get("UNCOM"))
        if busy:
            logger.warning(
                "copy of a deleted object of the group kept, it is in use name=%s",
                copy.name,
                extra={"event": "copy_kept"},
            )
        return busy


def _is_older(own: Definition, original: Definition) -> bool:
    """True if this is a copy of an earlier version. One of the same version may have been altered since."""
    return own.disposition == COPY and own.attributes.get(GROUP_VERSION) != original.attributes[GROUP_VERSION]
