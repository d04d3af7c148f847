"""The outcome of a command on a dead letter."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """The outcome of a command on one letter, or on a group of them, which goes together.

    `to` is the queue where they are now: empty where they were discarded, or stay where they are, because of
    `problem`.
    """

    msg_ids: tuple[bytes, ...]
    to: str = ""
    problem: str = ""
