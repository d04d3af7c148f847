"""The authority records of one entity for one type of objects, found by the name of an object (security 6.1)."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from broker.core.security.profiles import fits, is_generic, literal_part, rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.security.facts import AuthorityRecord


class Records:
    """The records of an entity for a type of objects, of which the most specific one that fits a name counts.

    A record without wildcards is found by the name. The others stand under the characters before their first wildcard:
    the longer these are, the more specific is the profile, for where two of them differ first, the one with the longer
    beginning has a character and the other a wildcard. So the beginnings of a name are looked up from the longest to
    the empty one, and only records that share one with the name are ever compared with it.
    """

    __slots__ = ("_exact", "_generic", "_lengths")

    def __init__(self) -> None:
        self._exact: dict[str, AuthorityRecord] = {}
        self._generic: dict[str, list[AuthorityRecord]] = {}
        self._lengths: list[int] = []  # of the beginnings, the longest first

    def __bool__(self) -> bool:
        return bool(self._exact or self._generic)

    def __iter__(self) -> Iterator[AuthorityRecord]:
        """Yield all records, in no order."""
        yield from self._exact.values()
        for each in self._generic.values():
            yield from each

    def add(self, record: AuthorityRecord) -> None:
        """Add a record whose profile has none yet."""
        if is_generic(record.profile):
            beginning = literal_part(record.profile)
            if len(beginning) not in self._lengths:
                self._lengths = sorted((*self._lengths, len(beginning)), reverse=True)
            insort(self._generic.setdefault(beginning, []), record, key=_order)
        else:
            self._exact[record.profile] = record

    def remove(self, record: AuthorityRecord) -> None:
        """Remove a record that was added."""
        if is_generic(record.profile):
            beginning = literal_part(record.profile)
            self._generic[beginning].remove(record)
            if not self._generic[beginning]:
                del self._generic[beginning]
                self._lengths = sorted({len(each) for each in self._generic}, reverse=True)
        else:
            del self._exact[record.profile]

    def exact(self, profile: str) -> AuthorityRecord | None:
        """Return the record of that very profile, which has no wildcards."""
        return self._exact.get(profile)

    def find(self, name: str) -> AuthorityRecord | None:
        """Return the most specific record that fits the name of an object."""
        found = self._exact.get(name)
        if found is not None:
            return found
        for length in self._lengths:
            for record in self._generic.get(name[:length], ()):
                if fits(record.profile, name):
                    return record
        return None


def _order(record: AuthorityRecord) -> tuple[str, str]:
    """The most specific first; of two that are equally specific the one whose profile sorts first."""
    return (rank(record.profile), record.profile)
