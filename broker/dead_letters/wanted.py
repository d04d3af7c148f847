"""The selection of dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.dead_letters.letter import DeadLetter

LetterSelection: TypeAlias = "Callable[[DeadLetter], bool]"
"""True of the letters that are meant: a `Wanted`, or any other function."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that is given must be true of a letter; nothing given: any letter.

    `msg_ids`: its MsgId is one of them. `why`: what killed it, whatever the case: a word such as `crashed`, or the name
    or number of the reason in its MQDLH. `handler`: of whom; `module:function`, or the function alone. `since`: it died
    at this instant, in seconds since 1970, or later.
    """

    msg_ids: frozenset[bytes] = frozenset()
    why: str = ""
    handler: str = ""
    since: float = 0.0

    def __call__(self, letter: DeadLetter) -> bool:
        """True if this letter is selected."""
        reason = () if letter.header is None else (str(letter.header.reason),)
        return (
            (not self.msg_ids or letter.md.msg_id in self.msg_ids)
            and (not self.why or self.why.lower() in (letter.why.lower(), *reason))
            and (not self.handler or self.handler in (letter.handler, letter.handler.rpartition(":")[2]))
            and letter.failed_at >= self.since
        )
