"""Dead letters put back to where they came from, or removed, and what came of it in words."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from broker.dead_letters import DeadLetterQueue, Wanted
from broker.http.console.page import Notice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker import Connection
    from broker.dead_letters import LetterSelection

LETTERS_AT_ONCE: Final = 1000
"""So many letters go with one request; for more it is made again."""

_PROBLEMS_TOLD: Final = 3


class LetterAction:
    """Letters of one or more queues are put back (`retry`) or removed. `moved` and `stayed` count them."""

    def __init__(self, connection: Connection, user: str, *, retry: bool, to: str = "", force: bool = False) -> None:
        self._connection = connection
        self._user = user
        self._retry = retry
        self._to = to
        self._force = force
        self.moved = 0
        self.stayed = 0
        self.cut = False
        self._targets: set[str] = set()
        self._problems: dict[str, int] = {}

    async def on(self, q_name: str, selection: LetterSelection, *, edited: bytes | None = None) -> None:
        """Do it to the letters of a queue that are meant. Raises what MQOPEN does."""
        async with DeadLetterQueue(self._connection, q_name, self._user) as letters:
            outcomes = (
                letters.retry(selection, to=self._to, force=self._force, edited=edited)
                if self._retry
                else letters.purge(selection)
            )
            async with aclosing(outcomes) as each_outcome:
                async for outcome in each_outcome:
                    if outcome.problem:
                        self.stayed += len(outcome.msg_ids)
                        self._problems[outcome.problem] = self._problems.get(outcome.problem, 0) + len(outcome.msg_ids)
                    else:
                        self.moved += len(outcome.msg_ids)
                        self._targets.add(outcome.to)
                    if self.moved + self.stayed >= LETTERS_AT_ONCE:
                        self.cut = True
                        return

    async def on_chosen(self, keys: Iterable[str], *, edited: bytes | None = None) -> int:
        """Do it to the letters that these keys name; the number of those named. `edited` is the new data of one."""
        by_queue: dict[str, set[bytes]] = {}
        for key in keys:
            msg_id, _, q_name = key.partition(" ")
            try:
                by_queue.setdefault(q_name, set()).add(bytes.fromhex(msg_id))
            except ValueError:
                continue
        for q_name, msg_ids in by_queue.items():
            await self.on(q_name, Wanted(msg_ids=frozenset(msg_ids)), edited=edited)
        return sum(map(len, by_queue.values()))

    def notice(self, named: int = 0, back: str = "") -> Notice:
        """Return the outcome in words. `named` is how many were asked for: those that somebody has taken are told."""
        said = []
        if self.moved:
            where = ", ".join(sorted(self._targets)[:_PROBLEMS_TOLD])
            done = f"put back to {where}" if self._retry else "removed for good"
            said.append(f"{_letters(self.moved)} {done}.")
        gone = named - self.moved - self.stayed
        if gone > 0 and not self.cut:
            verb = "is" if gone == 1 else "are"
            said.append(f"{_letters(gone)} {verb} not there any more: somebody was faster.")
        if self.stayed:
            why = "; ".join(f"{text} ({count:,})" for text, count in list(self._problems.items())[:_PROBLEMS_TOLD])
            said.append(f"{_letters(self.stayed)} stay{'s' if self.stayed == 1 else ''}: {why}.")
        if self.cut:
            said.append(f"{LETTERS_AT_ONCE:,} go at a time: do it again for the others.")
        if not said:
            said.append("No letter is meant any more: nothing was done.")
        return Notice(" ".join(said), good=bool(self.moved) and not self.stayed and gone <= 0, back=back)


def _letters(number: int) -> str:
    return "1 letter" if number == 1 else f"{number:,} letters"
