"""The queue manager as the interpreter sees it: its definitions, and the state of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.core.names.definitions import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.core.names.definitions import Definition
    from broker.core.security.facts import User


class Catalog(Protocol):
    """A view of the objects of a queue manager. Spaces are those of `Definition.space`: "QUEUE", "PROCESS",
    "CFSTRUCT", "QMGR", "USER", "AUTHINFO", "CHANNEL", "CLNTCONN", "CHLAUTH", "AUTHREC".
    """

    @property
    def queue_manager(self) -> Definition:
        """The queue manager's own definition."""

    @property
    def group_name(self) -> str:
        """The queue-sharing group that the queue manager is a member of; empty when it is in none."""

    def find(self, space: str, name: str, place: int = OWN) -> Definition | None:
        """The object of this name: the queue manager's own, or its copy, or with SHARED or GROUP that of the group.
        The interpreter does not ask for the queue manager.
        """

    def names(self, space: str) -> Iterable[str]:
        """The names in this space, of whatever disposition, sorted."""

    @property
    def users(self) -> Mapping[str, User]:
        """The users, by their names."""

    def records(self, object_type: int, profile: str, place: int = OWN) -> Mapping[str, Definition]:
        """The authority records of a type of object (MQOT) and a profile, by their keys: the queue manager's own, or
        with SHARED those of the group.
        """

    def status(self, definition: Definition) -> Mapping[str, int | str]:
        """Return the figures of an object while the queue manager runs; empty for what counts nothing, and zeroes may
        be left out.

        For DISPLAY and MQINQ: CURDEPTH, IPPROCS, OPPROCS. For the checks of commands: HANDLES, the number of open
        handles of any sort (for the queue manager, those that depend on its DEFXMITQ), and UNCOM, 1 while units of work
        on the queue are unfinished.
        """

    def held(self, q_name: str) -> str:
        """Return a sentence that says who has claimed messages of one of its own queues, or prepared some for it; empty
        when nobody has.
        """

    def statuses(self, noun: str, type: str) -> Iterator[Mapping[str, int | str] | None]:
        """Yield the figures by keyword of each row of a status (`broker.commands.table.statuses`), in order of the
        names; None between two steps of a long look.
        """
