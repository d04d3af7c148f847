"""What a command asks for, once its words are understood: nothing here depends on the queue manager's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from broker.commands.selection import Condition
    from broker.core.names.definitions import Attributes


@dataclass(frozen=True, slots=True)
class DefineRequest:
    """DEFINE: `given` are the attributes named; `like` the object that gives the others, None for the default one.

    `tpf` tells that the command came in TPF's language, which has a rule of its own for triggers.
    """

    kind: str
    name: str
    given: Attributes
    like: str | None = None
    replace: bool = False
    tpf: bool = False


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """ALTER: only what is given changes; `force` even where open handles depend on it."""

    kind: str
    name: str
    given: Attributes
    force: bool = False
    tpf: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """DELETE: `purge` gives up a queue's messages; with `ignore_state` it is a success if there is no such object."""

    kind: str
    name: str
    purge: bool = False
    ignore_state: bool = False


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """CLEAR QLOCAL."""

    name: str


@dataclass(frozen=True, slots=True)
class DisplayRequest:
    """DISPLAY of the objects of a noun whose names fit `pattern`, of these kinds, for which the condition holds.

    `keywords` are the attributes named; `everything` asks for all.
    """

    noun: str
    pattern: str
    kinds: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    condition: Condition | None = None
    everything: bool = False
    tpf: bool = False


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """DISPLAY of a status (`broker.commands.statuses`) of what has a name that fits `pattern`, for which the condition
    holds. `keywords` are the figures named, all if there are none.
    """

    noun: str
    type: str
    pattern: str
    keywords: tuple[str, ...] = ()
    condition: Condition | None = None
    tpf: bool = False


@dataclass(frozen=True, slots=True)
class ResolveConsumerRequest:
    """RESOLVE CONSUMER: `commit` removes the claims that are pinned, and gives the others back to their queues; else
    all are given back, those that are `pinned` too if that is said.
    """

    name: str
    commit: bool
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class ResolveUnitRequest:
    """RESOLVE INDOUBT of the prepared unit of that name, to be discarded, or with `commit` published."""

    name: str
    commit: bool


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """RESET SINK: forget its ledger, so that it belongs to no query."""

    name: str


Decision: TypeAlias = ResolveConsumerRequest | ResolveUnitRequest | ResetRequest
"""What an administrator decides in place of a program."""
DECISIONS = (ResolveConsumerRequest, ResolveUnitRequest, ResetRequest)

Request: TypeAlias = (
    DefineRequest | AlterRequest | DeleteRequest | ClearRequest | DisplayRequest | StatusRequest | Decision
)
