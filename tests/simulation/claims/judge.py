"""The judge: all that was put, compared with all that was archived, taken, or is still there, when all has ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.simulation.claims.records import Violation
from tests.simulation.claims.sink import PARTITIONS, persistent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tests.simulation.claims.records import Query, Records, Row, Sent, Taking
    from tests.simulation.claims.sink import SinkQuery


class Judge:
    """`left` has what is on the queues of the producers, `life` is that of the queue manager."""

    def __init__(self, records: Records, left: Collection[str], life: int) -> None:
        self._records = records
        self._left = Counter(left)
        self._life = life
        self._archived = Counter(row.name for query in records.queries for row in _rows(query))
        self._forgive_copies()
        committed = (name for taking in records.taken if taking.committed for name in taking.names)
        self._found = self._archived + self._left + Counter(committed)

    def check(self) -> None:
        """Raise Violation for a message that is lost or there twice, or out of its order."""
        for sent in self._records.sent.values():
            found = self._found[sent.name]
            if found > 1:
                raise Violation(f"{sent} is doubled: {self._where(sent.name)}")
            if not found and sent.sure and not self._may_be_gone(sent):
                raise Violation(f"{sent} is lost")
        if strangers := self._found.keys() - self._records.sent.keys():
            raise Violation(f"nobody has put {strangers}")
        for query in self._records.queries:
            self._check_sequences(query)

    def _where(self, name: str) -> str:
        archives = [
            (query.consumer, at, batch, row.sequence)
            for at, query in enumerate(self._records.queries)
            for batch, rows in query.output.items()
            for row in rows
            if row.name == name and batch > query.copied
        ]
        taken = [taking for taking in self._records.taken if name in taking.names and taking.committed is not False]
        return f"archives {archives}, taken {taken}, left {self._left[name]}"

    def _may_be_gone(self, sent: Sent) -> bool:
        """True if a restart has ended it, or a commit of the rival whose answer was lost, as a whole."""
        if not sent.persistent:
            return sent.life < self._life or any(sent.name in each.names for each in self._doubtful())
        return any(sent.name in each.names and self._happened(each) for each in self._doubtful())

    def _doubtful(self) -> Iterator[Taking]:
        return (taking for taking in self._records.taken if taking.committed is None)

    def _happened(self, taking: Taking) -> bool:
        """True if this commit may have happened: none of its messages is anywhere else."""
        return not any(self._found[name] for name in taking.names)

    def _forgive_copies(self) -> None:
        """With a copy of a checkpoint beside the original one batch may be in both outputs: nothing here can see that
        (claims rule 2.6). It is the same one.
        """
        for copy in self._records.queries:
            if not copy.copy:
                continue
            both = [
                (batch, row.name)
                for batch, rows in copy.output.items()
                for row in rows
                if batch > copy.copied and self._archived[row.name] > 1
            ]
            if len({batch for batch, _ in both}) == 1:
                self._archived.subtract(name for _, name in both)
                self._records.doubled_by_copies += 1

    def _check_sequences(self, query: Query) -> None:
        """The sequences of an output have no hole, and go up."""
        found = [row.sequence for row in _rows(query)]
        if found and found != list(range(found[0], found[0] + len(found))):
            raise Violation(f"the output of {query.consumer} has the sequences {found}")

    def check_order(self) -> None:
        """Of a consumer without a rival: the messages of one producer, queue and priority keep their order."""
        for query in self._records.queries:
            latest: dict[tuple[str, str, int], Sent] = {}
            for row in _rows(query):
                sent = self._records.sent[row.name]
                if row.backout_count or (query.groups and sent.member is not None):
                    continue  # it was given up and came again; or it stands where its group does
                before = latest.get(sent.line)
                if before is not None and before.order > sent.order:
                    raise Violation(f"{query.consumer}: {sent} comes after {before}")
                latest[sent.line] = sent


def check_sink(queries: Sequence[SinkQuery], found: Sequence[str], restarted: bool) -> None:
    """The queue of the sink has just the rows of the query to which it belongs, in their order. A restart has ended
    what was nonpersistent.
    """
    finished = [query for query in queries if query.done]
    if len(finished) != 1 or any(query.commits for query in queries if not query.done):
        raise Violation(f"the sink was used by {[(query.name, query.commits) for query in queries]}")
    (query,) = finished
    wanted = [
        row for batch in range(query.batches) for partition in range(PARTITIONS) for row in query.rows(batch, partition)
    ]
    if restarted:
        wanted = [row for row in wanted if persistent(row) or row in found]
    if list(found) != wanted:
        lost, more = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
        raise Violation(f"sink: lost {dict(lost)}, doubled {dict(more)}; {list(found)}")


def _rows(query: Query) -> Iterator[Row]:
    """The rows of its own output, in order."""
    for batch in sorted(query.output):
        if batch > query.copied:
            yield from query.output[batch]
