"""Logins (security 4.6, 4.8 and 4.9): a password that is verified in a thread while it is changed or its user removed,
and a token that is renewed while it ends.
"""

from __future__ import annotations

from typing import Final

from tests.security.model.explorer import BLOCKED, END, Guards, Process, State, System, Values

REMEMBERED_UNDER_HASH: Final = "a good password is remembered under the hash that it fits"
SHARED_UNDER_HASH: Final = "equal verifications under way are of one hash"
LOOKED_AT_AGAIN: Final = "behind a verification the user is looked at again"
ADMITTED_AT_ONCE: Final = "no await stands between the last look at the user and the answer"
LINES_END_FIRST: Final = "conversations of a user end before its removal is answered"
TIMER_LOOKS: Final = "a timer looks at the instant again"
RENEWAL_LOOKS: Final = "nothing brings back what has ended"
RENEWAL_WATCHED: Final = "a token that renews is watched as the first one was"


# A password. Both programs have the old one.

_OLD: Final = "hash of the old"
_NEW: Final = "hash of the new"


def _user() -> State:
    return State(
        wrong="",
        stored=_OLD,  # of the user; empty when it is removed
        answered=False,
        remembered=frozenset(),  # the keys of good passwords
        under_way=Values(),  # by key the hash that is compared with, and when that is done if it was good
        begun=Values(),  # the hash that each program began with
        lines=0,
    )


def _answer(s: State, guards: Guards) -> str:
    s.answered = True
    return END


def _change() -> Process:
    def change(s: State, guards: Guards) -> str:
        s.stored = _NEW
        return "answer"

    return Process("change", {"change": change, "answer": _answer})


def _remove() -> Process:
    def remove(s: State, guards: Guards) -> str:
        s.stored = ""
        if LINES_END_FIRST in guards:
            s.lines = 0
        return "answer"

    def answer(s: State, guards: Guards) -> str:
        if s.lines:
            s.wrong = "a user that was removed has a line behind the answer"
        return _answer(s, guards)

    return Process("remove", {"remove": remove, "answer": answer})


class _LogIn:
    """A program logs in with the old password."""

    def __init__(self, program: str) -> None:
        self._program = program

    @property
    def process(self) -> Process:
        steps = {"look": self._look, "thread": self._thread, "wait": self._wait, "admit": self._admit}
        return Process(f"log in {self._program}", steps)

    def _key(self, s: State, guards: Guards, guard: str) -> str:
        """Return the key of the password: with the hash that it was compared with, or alone."""
        return str(s.begun[self._program]) if guard in guards else "the password"

    def _look(self, s: State, guards: Guards) -> str:
        s.begun |= {self._program: s.stored}
        if not s.stored:
            return END  # nobody comes in by the work on a dummy
        if self._key(s, guards, REMEMBERED_UNDER_HASH) in s.remembered:
            return self._admit(s, guards)
        key = self._key(s, guards, SHARED_UNDER_HASH)
        if key in s.under_way:
            return "wait"
        s.under_way |= {key: s.stored}
        return "thread"

    def _thread(self, s: State, guards: Guards) -> str:
        """The thread is done. Those who wait for it go on in later turns of the loop."""
        key = self._key(s, guards, SHARED_UNDER_HASH)
        good = s.under_way[key] == _OLD
        if good:
            s.remembered |= {self._key(s, guards, REMEMBERED_UNDER_HASH)}
        s.under_way |= {key: good}
        return "wait"

    def _wait(self, s: State, guards: Guards) -> str:
        good = s.under_way[self._key(s, guards, SHARED_UNDER_HASH)]
        if not isinstance(good, bool):
            return BLOCKED
        if not good:
            return END
        if LOOKED_AT_AGAIN in guards and s.stored != s.begun[self._program]:
            return "look"  # at the hash that the user has now
        return self._admit(s, guards) if ADMITTED_AT_ONCE in guards else "admit"

    def _admit(self, s: State, guards: Guards) -> str:
        s.lines += 1
        if s.answered:
            s.wrong = "an old password, or a removed user, was let in behind the answer"
        return END


# A token ends at instant 1; the one that renews it ends at 3.

_LAST: Final = 3


def _token() -> State:
    return State(wrong="", now=0, until=1, alive=True, timers=frozenset({1}))


def _clock() -> Process:
    def tick(s: State, guards: Guards) -> str:
        s.now += 1
        return "tick" if s.now <= _LAST else END

    return Process("clock", {"tick": tick})


def _timer() -> Process:
    """The timers that are set: each comes at its instant, or later."""

    def come(s: State, guards: Guards) -> str:
        if not s.timers:
            return END
        due = min(s.timers)
        if s.now < due:
            return BLOCKED
        s.timers -= {due}
        ended = s.now >= s.until
        if ended or TIMER_LOOKS not in guards:
            if s.alive and not ended:
                s.wrong = "the timer of a token has ended a conversation that was renewed"
            s.alive = False
        return "come"

    return Process("timer", {"come": come})


def _renew() -> Process:
    """AUTHENTICATE: on its way, verified, and taken."""

    def send(s: State, guards: Guards) -> str:
        return "verify"

    def verify(s: State, guards: Guards) -> str:
        return "take"

    def take(s: State, guards: Guards) -> str:
        ended = not s.alive or s.now >= s.until
        if ended and RENEWAL_LOOKS in guards:
            return END
        if ended:
            s.wrong = "a renewal has brought back a conversation that had ended"
        s.until = _LAST
        if RENEWAL_WATCHED in guards:
            s.timers |= {_LAST}
        return END

    return Process("renew", {"send": send, "verify": verify, "take": take})


def _is_over(s: State) -> None:
    if s.alive:
        s.wrong = "a conversation has outlived its token"


SYSTEMS: Final = {
    "password that changes": System(
        first=_user,
        processes=(_change(), _LogIn("1").process, _LogIn("2").process),
        guards=dict.fromkeys((REMEMBERED_UNDER_HASH, SHARED_UNDER_HASH, LOOKED_AT_AGAIN, ADMITTED_AT_ONCE), "4.6"),
    ),
    "user that is removed": System(
        first=_user,
        processes=(_remove(), _LogIn("1").process, _LogIn("2").process),
        guards={LOOKED_AT_AGAIN: "4.6", ADMITTED_AT_ONCE: "4.6", LINES_END_FIRST: "4.9"},
    ),
    "token": System(
        first=_token,
        processes=(_clock(), _timer(), _renew()),
        guards=dict.fromkeys((TIMER_LOOKS, RENEWAL_LOOKS, RENEWAL_WATCHED), "4.8"),
        at_end=_is_over,
    ),
}
