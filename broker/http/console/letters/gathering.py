"""All dead letters that a caller may browse, read once and in a bounded way."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from broker.dead_letters import DeadLetterQueue, dead_letter_queues
from broker.mqi import MQRC, MQError
from broker.mqi.delivery_fields import failure_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from broker import Connection
    from broker.dead_letters import DeadLetter

LETTERS_READ: Final = 10_000
"""So many letters are read for a page."""

PAGE_LETTERS: Final = 100
_STEP: Final = 8
_TEXT: Final = 200
_ENDED: Final = (
    MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING, MQRC.Q_MGR_NOT_AVAILABLE,
)  # fmt: skip


class FoundLetter(NamedTuple):
    """A letter on a dead-letter queue."""

    q_name: str
    letter: DeadLetter


@dataclass(slots=True)
class DeathGroup:
    """Letters that died of the same under the same handler: how many, since when, and the error of the last."""

    why: str
    handler: str
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    example: str = ""
    replays: int = 0
    q_names: set[str] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)

    def add(self, q_name: str, letter: DeadLetter) -> None:
        """Count a letter."""
        at = letter.failed_at
        self.count += 1
        self.first = at if self.count == 1 else min(self.first, at)
        if at >= self.last:
            self.last, self.example = at, error_of(letter)
        self.replays = max(self.replays, letter.replays)
        self.q_names.add(q_name)
        self.origins.add(letter.q_name)


@dataclass(slots=True)
class GatheredLetters:
    """The letters that have been read, in groups. `refused` are queues that could not be browsed, with the reasons;
    `cut`: there are more than were read.
    """

    groups: dict[tuple[str, str], DeathGroup] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    q_names: list[str] = field(default_factory=list)
    read: int = 0
    cut: bool = False

    def by_last(self) -> list[DeathGroup]:
        """Return the groups, the one with the youngest letter first."""
        return sorted(self.groups.values(), key=lambda each: (-each.last, each.why, each.handler))


def error_of(letter: DeadLetter) -> str:
    """Return the exception of a letter with its text, as one line; empty where there is none."""
    return failure_text(letter.exception, " ".join(letter.error[: 4 * _TEXT].split()))[: 2 * _TEXT]


class LetterPage:
    """A page of the letters that died of the same: those behind the one of the key `after`, or from the first where
    that is empty or has gone.
    """

    def __init__(self, why: str, handler: str, after: str) -> None:
        self._death = why, handler
        self._after = after
        self._found: list[FoundLetter] = []
        self._is_behind = not after

    def see(self, found: FoundLetter) -> None:
        """Take the next of all letters, if it is on this page."""
        if (found.letter.why, found.letter.handler) != self._death:
            return
        if len(self._found) <= PAGE_LETTERS:
            self._found.append(found)
        if not self._is_behind and key_of(*found) == self._after:
            self._is_behind = True
            self._found = []

    @property
    def letters(self) -> Sequence[FoundLetter]:
        """The letters of the page."""
        return self._found[:PAGE_LETTERS]

    @property
    def more(self) -> bool:
        """True if there are more behind it."""
        return len(self._found) > PAGE_LETTERS


async def gathered(connection: Connection, page: LetterPage | None = None) -> GatheredLetters:
    """Read the letters of all queues that take them, at most LETTERS_READ, and gather them; those of a page, too."""
    found = GatheredLetters(q_names=await dead_letter_queues(connection))
    async with aclosing(_letters(connection, found)) as letters:
        async for each in letters:
            q_name, letter = each
            key = letter.why, letter.handler
            group = found.groups.get(key)
            if group is None:
                group = found.groups[key] = DeathGroup(*key)
            group.add(q_name, letter)
            if page is not None:
                page.see(each)
    return found


def key_of(q_name: str, letter: DeadLetter) -> str:
    """Return the text by which forms name a letter: its MsgId, and its queue."""
    return f"{letter.md.msg_id.hex()} {q_name}"


async def _letters(connection: Connection, found: GatheredLetters) -> AsyncGenerator[FoundLetter, None]:
    for q_name in found.q_names:
        try:
            async with (
                DeadLetterQueue(connection, q_name, browse_only=True) as letters,
                aclosing(letters.browse(_any)) as browsed,
            ):
                async for letter in browsed:
                    if found.read >= LETTERS_READ:
                        found.cut = True
                        return
                    found.read += 1
                    yield FoundLetter(q_name, letter)
                    if found.read % _STEP == 0:
                        await anyio.lowlevel.checkpoint()
        except MQError as error:
            if error.reason in _ENDED:
                raise
            found.refused[q_name] = str(error)


def _any(letter: DeadLetter) -> bool:
    return True
