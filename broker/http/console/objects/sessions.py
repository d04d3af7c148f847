"""The commands of a session of the console, with what came of them: a bounded number, as long as the console runs."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.commands.errors import without_secrets
from broker.commands.language.script import ScriptReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.mqi import CommandReply

SESSIONS_MAX: Final = 100
COMMANDS_KEPT: Final = 30
COMMANDS_MAX: Final = 200
"""So many commands are run at once."""

TEXT_CHARACTERS: Final = 32 * 1024
ROWS_KEPT: Final = 100


class DoneCommand(NamedTuple):
    """A command, when it was sent (seconds since 1970), and what came of it, as much of it as is kept."""

    at: float
    line: str
    ok: bool
    text: str
    rows: Sequence[Mapping[str, Any]]
    found: int


class CommandSessions:
    """The commands of all sessions, by who has sent them."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, deque[DoneCommand]] = OrderedDict()

    def of(self, owner: str) -> Sequence[DoneCommand]:
        """Return the commands of a session, the last first."""
        return tuple(self._sessions.get(owner, ()))

    def add(self, owner: str, at: float, line: str, reply: CommandReply) -> None:
        """Keep a command with its reply; passwords in it are not kept."""
        done = DoneCommand(
            at, without_secrets(line)[:TEXT_CHARACTERS], reply.ok, reply.text.strip()[:TEXT_CHARACTERS],
            reply.attributes[:ROWS_KEPT], len(reply.attributes),
        )  # fmt: skip
        self._sessions.setdefault(owner, deque(maxlen=COMMANDS_KEPT)).appendleft(done)
        self._sessions.move_to_end(owner)
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def forget(self, owner: str) -> None:
        """Keep no command of a session any more."""
        self._sessions.pop(owner, None)


def commands_of(script: str) -> list[str]:
    """Return the commands of a text as `evermq mqsc` reads it, up to END; at most COMMANDS_MAX."""
    reader = ScriptReader()
    found: list[str] = []
    for line in script.splitlines():
        found += reader.feed(line)
        if reader.ended or len(found) > COMMANDS_MAX:
            break
    else:
        found += reader.finish()
    return found
