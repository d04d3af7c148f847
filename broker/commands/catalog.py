"""What the interpreter needs to know of the queue manager: its definitions, and what is going on with each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.core.names.definitions import Definition


class Catalog(Protocol):
    """A view of the objects of a queue manager. Spaces are those of `Definition.space`: "QUEUE", "PROCESS", "QMGR"."""

    @property
    def queue_manager(self) -> Definition:
        """The queue manager's own definition."""

    def find(self, space: str, name: str) -> Definition | None:
        """The object of this name; the interpreter asks for queues and processes only."""

    def names(self, space: str) -> Iterable[str]:
        """The names in this space, sorted."""

    def status(self, space: str, name: str) -> Mapping[str, int | str]:
        """What is counted while the queue manager runs; empty for what counts nothing, and zeroes may be left out.

        For DISPLAY and MQINQ: CURDEPTH, IPPROCS, OPPROCS. For the checks of commands: HANDLES, the number of open
        handles of any sort (for the queue manager, those that depend on its DEFXMITQ), and UNCOM, 1 while units of work
        on the queue are unfinished.
        """

    def held(self, q_name: str) -> str:
        """Who has claimed messages of a queue, or prepared some for it, in a sentence; empty when nobody has."""

    def statuses(self, noun: str, type: str) -> Iterator[Mapping[str, int | str] | None]:
        """What there is of a status (`broker.commands.statuses`), figures by keyword, in order of the names; None
        between two steps of a long look.
        """
