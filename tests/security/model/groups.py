"""Rights and users in a queue-sharing group (security 11.1 and 11.2): two members, A and B.

A command at one of them takes a right on a shared queue away, or disables a user. Each member knows the record and the
version of the security as it has read them, and keeps what it has judged. Notifications may never come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.security.model.explorer import END, Guards, Process, State, System, Values
from tests.security.model.logins import LOOKED_AT_AGAIN

if TYPE_CHECKING:
    from tests.security.model.explorer import Step

ONE_TRANSACTION: Final = "the version rises in the transaction that changes a record"
ONE_SNAPSHOT: Final = "records and their version are read in one snapshot"
GENERATION: Final = "what was judged by other records does not count any more"
VERSION_CARRIED: Final = "the open of a shared queue carries the version by which it was judged"
JUDGED_AGAIN: Final = "where the version has moved the member reads, and judges again"
JUDGED_AT_ONCE: Final = "no await stands between the judgement and the handle"
LINES_END: Final = "conversations of a user end when the member learns that it is disabled"


# A right on a shared queue.


def _group() -> State:
    return State(
        wrong="",
        version=1,
        allowed=True,  # the record
        answered=False,  # the command that takes the right away
        polled=False,  # by B, behind that
        read=Values(A=(True, 1), B=(True, 1)),
        half_read=Values(),
        kept=Values(A=None, B=None),  # verdicts
        late=Values(),
        judged=Values(),  # verdict and version of an open that is under way
        opens=Values(A=0, B=0),
    )


def _revoke() -> Process:
    """SET AUTHREC, at a member that does not even look at what it has written."""

    def write(s: State, guards: Guards) -> str:
        s.version += 1
        if ONE_TRANSACTION not in guards:
            return "write the record"
        return write_record(s, guards)

    def write_record(s: State, guards: Guards) -> str:
        s.allowed = False
        return "answer"

    return Process("revoke", {"write": write, "write the record": write_record, "answer": _answer})


def _answer(s: State, guards: Guards) -> str:
    s.answered = True
    return END


def _change() -> Process:
    """A record that has nothing to do with the queue changes."""

    def write(s: State, guards: Guards) -> str:
        s.version += 1
        return END

    return Process("change of another record", {"write": write})


def _reading(member: str, then: Step) -> dict[str, Step]:
    """The steps in which a member reads record and version; `then` follows at once."""

    def read(s: State, guards: Guards) -> str:
        s.half_read |= {member: s.allowed}
        return read_version(s, guards) if ONE_SNAPSHOT in guards else "read the version"

    def read_version(s: State, guards: Guards) -> str:
        s.read |= {member: (s.half_read[member], s.version)}
        s.half_read |= {member: None}
        if GENERATION in guards:
            s.kept |= {member: None}
        return then(s, guards)

    return {"read": read, "read the version": read_version}


def _judge(s: State, member: str) -> None:
    """Judge the open of a member, by a verdict that it keeps or the record that it knows."""
    allowed, version = s.read[member]
    if s.kept[member] is None:
        s.kept |= {member: allowed}
    s.judged |= {member: (s.kept[member], version)}


def _open_shared(member: str, times: int) -> Process:
    """A program of a member opens the shared queue so often."""

    def begin(s: State, guards: Guards) -> str:
        s.late |= {member: s.answered}
        return judge(s, guards)

    def judge(s: State, guards: Guards) -> str:
        _judge(s, member)
        return "statement"

    def statement(s: State, guards: Guards) -> str:
        moved = s.judged[member][1] != s.version
        return "read" if moved and VERSION_CARRIED in guards else end(s, guards)

    def read_again(s: State, guards: Guards) -> str:
        return judge(s, guards) if JUDGED_AGAIN in guards else end(s, guards)

    def end(s: State, guards: Guards) -> str:
        if s.judged[member][0] and s.late[member]:
            s.wrong = "a shared queue was opened behind the answer to the command that took the right away"
        s.judged |= {member: None}
        s.opens |= {member: s.opens[member] + 1}
        return "begin" if s.opens[member] < times else END

    return Process(f"open at {member}", {"begin": begin, "statement": statement, **_reading(member, read_again)})


def _notified(member: str) -> Process:
    """A notification: it may come at any time."""
    return Process(f"notification at {member}", _reading(member, lambda s, guards: END))


def _open_own(times: int) -> Process:
    """A program of B opens a queue of the member's own so often."""

    def begin(s: State, guards: Guards) -> str:
        _judge(s, "B")
        return make_handle(s, guards) if JUDGED_AT_ONCE in guards else "handle"

    def make_handle(s: State, guards: Guards) -> str:
        if s.judged["B"][0] and s.polled:
            s.wrong = "a queue of its own was opened at a member that has polled since the right was taken away"
        s.opens |= {"B": s.opens["B"] + 1}
        return "begin" if s.opens["B"] < times else END

    return Process("open at B", {"begin": begin, "handle": make_handle})


def _poll() -> Process:
    """Polls of B, until one has begun behind the answer. For these it need not read in one snapshot."""

    def begin(s: State, guards: Guards) -> str:
        s.late |= {"B": s.answered}
        return steps["read"](s, guards)

    def end(s: State, guards: Guards) -> str:
        s.polled = s.late["B"]
        return END if s.polled else "begin"

    steps = _reading("B", end)
    return Process("poll at B", {"begin": begin, **steps})


# A user of the group that is disabled at A, and logs in at B.


def _group_user() -> State:
    return State(wrong="", enabled=True, known=True, answered=False, polled=False, lines=0, found=None)


def _disable() -> Process:
    def write(s: State, guards: Guards) -> str:
        s.enabled = False
        return "answer"

    return Process("disable", {"write": write, "answer": _answer})


def _poll_users() -> Process:
    def poll(s: State, guards: Guards) -> str:
        s.known, s.polled = s.enabled, s.answered
        if not s.known and LINES_END in guards:
            s.lines = 0
        return END if s.polled else "poll"

    return Process("poll", {"poll": poll})


def _log_in() -> Process:
    def look(s: State, guards: Guards) -> str:
        s.found = s.known
        return "verify"

    def verify(s: State, guards: Guards) -> str:
        if LOOKED_AT_AGAIN in guards:
            s.found = s.known
        s.lines += s.found
        return END

    return Process("log in", {"look": look, "verify": verify})


def _has_no_line(s: State) -> None:
    if s.polled and s.lines:
        s.wrong = "a user that was disabled has a line at a member that has polled since"


_RULES: Final = dict.fromkeys((ONE_TRANSACTION, ONE_SNAPSHOT, GENERATION, VERSION_CARRIED, JUDGED_AGAIN), "11.2")

SYSTEMS: Final = {
    "shared queue, notifications off": System(
        first=_group, processes=(_revoke(), _change(), _open_shared("A", 2), _open_shared("B", 2)), guards=_RULES
    ),
    "shared queue, notifications on": System(
        first=_group, processes=(_revoke(), _open_shared("B", 2), _notified("A"), _notified("B")), guards=_RULES
    ),
    "queue of a member's own": System(
        first=_group,
        processes=(_revoke(), _open_own(2), _poll()),
        guards={GENERATION: "5.3", JUDGED_AT_ONCE: "5.1"},
    ),
    "user of the group": System(
        first=_group_user,
        processes=(_disable(), _poll_users(), _log_in()),
        guards={LINES_END: "4.9", LOOKED_AT_AGAIN: "4.6"},
        at_end=_has_no_line,
    ),
}
