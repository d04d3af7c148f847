"""The answer of `Connection.explain`: why messages of a queue are not delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Cause(StrEnum):
    """The subject of a finding. All but AVAILABLE, GETTERS_WAITING and SERVED keep messages from getters."""

    GET_INHIBITED = "GET_INHIBITED"
    """The queue has GET(DISABLED)."""
    PUT_INHIBITED = "PUT_INHIBITED"
    """The queue has PUT(DISABLED): nothing new comes."""
    NO_MESSAGE = "NO_MESSAGE"
    """There is none at all, or none with the identifiers asked for."""
    UNCOMMITTED_PUT = "UNCOMMITTED_PUT"
    """Put in a unit of work that has not been committed."""
    UNCOMMITTED_GET = "UNCOMMITTED_GET"
    """Got in a unit of work that has not been committed: gone with its commit, back with its backout."""
    IN_DOUBT = "IN_DOUBT"
    """Put or got in a unit of work that is prepared, and whose decision lies in a database and is not known here."""
    LOCKED = "LOCKED"
    """Locked by a browse; only the handle that holds the lock sees it."""
    CLAIMED = "CLAIMED"
    """A consumer has claimed it, until it acknowledges it or is resolved."""
    PREPARED = "PREPARED"
    """Put by a prepared unit, which is neither published nor discarded yet."""
    DELAYED = "WAITING"
    """It is delayed: it was put with a delay, or a handler has failed on it. The code is the old word until 0.2."""
    WAITING = "WAITING"
    """The old name of DELAYED, until 0.2."""
    EXPIRED = "EXPIRED"
    """Its time is up; the next getter that meets it discards it."""
    DAMAGED = "DAMAGED"
    """The data that is kept of it is not the data that was put: nobody is given it."""
    INCOMPLETE_GROUP = "INCOMPLETE_GROUP"
    """Messages of the group are not available: no get with ALL_MSGS_AVAILABLE is given any of it."""
    INCOMPLETE_MESSAGE = "INCOMPLETE_MESSAGE"
    """Segments are not available: no get with COMPLETE_MSG or ALL_SEGMENTS_AVAILABLE is given any of it."""
    GROUP_TOO_LARGE = "GROUP_TOO_LARGE"
    """The group has more messages, or bytes, than a consumer that takes whole groups may claim: it passes it over."""
    GROUP_LEFT_BEHIND = "GROUP_LEFT_BEHIND"
    """Beyond the last message of its group, or in a place of the group that another has: a consumer that takes whole
    groups leaves it.
    """
    FIRST_ITEM_ABSENT = "FIRST_ITEM_ABSENT"
    """The first message of the group is not available: no get with LOGICAL_ORDER begins the group."""
    HIGHER_PRIORITY_AHEAD = "HIGHER_PRIORITY_AHEAD"
    """Messages of higher priority come first."""
    MESSAGES_AHEAD = "MESSAGES_AHEAD"
    """Messages that arrived earlier come first."""
    SELECTOR = "SELECTOR"
    """A program has opened the queue with a selector that is not true of it."""
    MARKED = "MARKED"
    """Marked by a browse: no browse with UNMARKED_BROWSE_MSG in its set is given it."""
    NOT_OPEN_FOR_INPUT = "NOT_OPEN_FOR_INPUT"
    """No program has the queue open for input."""
    CANNOT_TRIGGER = "CANNOT_TRIGGER"
    """The queue is meant to trigger, and a condition for that is not met: its messages start nothing."""
    NOT_SERVED = "NOT_SERVED"
    """Starts are pending that nobody takes: no worker serves the queue, and no trigger's handler runs."""
    SERVED = "SERVED"
    """Workers serve the queue: its messages are for their handlers."""
    GETTERS_WAITING = "GETTERS_WAITING"
    """Gets wait for something that has not come."""
    AVAILABLE = "AVAILABLE"
    """A get without options is given it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found: what it is about (a `Cause`; a newer queue manager may know others), a sentence, and figures.

    Identifiers in the figures are hexadecimal digits, moments are seconds since 1970. Of messages that somebody holds,
    `msg_ids` are the first ten; of more than a hundred units of work, those of the first hundred.
    """

    code: str
    text: str
    figures: dict[str, Any] = field(default_factory=dict)


_HARMLESS: Final = frozenset({Cause.AVAILABLE, Cause.GETTERS_WAITING, Cause.SERVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that was found about a queue, or about the messages of it that were asked for. `str` of it is for people."""

    q_name: str
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The causes of the findings, in their order."""
        return tuple(finding.code for finding in self.findings)

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The findings that keep messages from getters."""
        return tuple(finding for finding in self.findings if finding.code not in _HARMLESS)

    def __str__(self) -> str:
        return "\n".join(f"{finding.code}: {finding.text}" for finding in self.findings)
