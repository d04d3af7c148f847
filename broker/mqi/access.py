"""The answers about users: whose a connection is, and may a user do that, by which rules, and what would allow it."""

from __future__ import annotations

from typing import NamedTuple


class AccessStep(NamedTuple):
    """One rule on the way to a decision: the rule, the facts that it was compared with, and what it said."""

    rule: str
    compared: str
    verdict: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.compared}: {self.verdict}"


class Access(NamedTuple):
    """A decision and its reasons.

    `user` is the user that rights are judged for, which rules of channels may have chosen; empty where there is none.
    `steps` has a line for each rule that was looked at, the last one decides. `grant` is empty if it is allowed, or if
    no command allows it without letting others in as well; else it is the command that allows it and nothing else, or
    several, each on a line of its own.
    """

    allowed: bool
    user: str
    steps: tuple[AccessStep, ...]
    grant: str = ""


class OwnUser(NamedTuple):
    """The user of a connection, as it is at this moment.

    `proved`: it has proved who it is, and its calls are judged. It has not where the queue manager trusts its own
    machine, and the owner of the queue manager needs not. `administrator`: it has every right. `stamp` changes with the
    password, the status and the groups of the user, as that of `Login` does. `groups` are those of its USER object.
    """

    user: str
    proved: bool
    administrator: bool
    stamp: str
    groups: tuple[str, ...] = ()
