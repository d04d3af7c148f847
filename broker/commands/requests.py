"""Commands as requests, once their words are understood: nothing here depends on the queue manager's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from broker.commands.table.dispositions import LIVE, UNSAID
from broker.core.names.definitions import OWN

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
    disposition: int = OWN


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """ALTER: only what is given changes; `force` even where open handles depend on it."""

    kind: str
    name: str
    given: Attributes
    force: bool = False
    tpf: bool = False
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """DELETE: `purge` gives up a queue's messages; with `ignore_state` it is a success if there is no such object."""

    kind: str
    name: str
    purge: bool = False
    ignore_state: bool = False
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """CLEAR QLOCAL."""

    name: str
    disposition: int = UNSAID


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
    disposition: int = LIVE


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """DISPLAY of a status (`broker.commands.table.statuses`) of what has a name that fits `pattern`, for which the
    condition holds. `keywords` are the figures named, all if there are none.
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
    """RESOLVE INDOUBT of the prepared unit of that name, to be discarded, or with `commit` published; or of the unit of
    work whose prepared branch is in doubt.
    """

    name: str
    commit: bool


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """RESET SINK: forget its ledger, so that it belongs to no query."""

    name: str


Decision: TypeAlias = ResolveConsumerRequest | ResolveUnitRequest | ResetRequest
"""Requests by which an administrator decides in place of a program."""
DECISIONS = (ResolveConsumerRequest, ResolveUnitRequest, ResetRequest)


@dataclass(frozen=True, slots=True)
class BackUpRequest:
    """BACKUP CFSTRUCT of the structures whose names fit `pattern`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """RECOVER CFSTRUCT: what has failed can be used again; with `purge` its messages are gone."""

    name: str
    purge: bool = False


@dataclass(frozen=True, slots=True)
class FailRequest:
    """RESET CFSTRUCT ACTION(FAIL): the structure fails, as if it had."""

    name: str


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """MOVE QLOCAL: the messages of a queue, with `shared` of one that the group has, to the other kind of queue, which
    is empty unless they are to be `added`.
    """

    name: str
    target: str
    shared: bool
    added: bool = False


@dataclass(frozen=True, slots=True)
class PeerUnitsRequest:
    """DISPLAY THREAD TYPE(INDOUBT) QMNAME: the units of work that a queue manager which does not run has left."""

    member: str
    pattern: str
    tpf: bool = False


@dataclass(frozen=True, slots=True)
class ResolvePeerUnitRequest:
    """RESOLVE INDOUBT QMNAME: end one of these."""

    member: str
    name: str
    commit: bool


@dataclass(frozen=True, slots=True)
class MembersRequest:
    """DISPLAY GROUP: the members of the group, as a status."""

    shown: StatusRequest


GroupRequest: TypeAlias = (
    BackUpRequest
    | RecoverRequest
    | FailRequest
    | MoveRequest
    | PeerUnitsRequest
    | ResolvePeerUnitRequest
    | MembersRequest
)
"""Requests that are carried out in the database of the group."""
GROUP_REQUESTS = (
    BackUpRequest, RecoverRequest, FailRequest, MoveRequest, PeerUnitsRequest, ResolvePeerUnitRequest, MembersRequest,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScopedRequest:
    """A command with CMDSCOPE: the name of a queue manager, or an asterisk for all members of the group that run."""

    request: Request
    scope: str
    text: str


Request: TypeAlias = (
    DefineRequest
    | AlterRequest
    | DeleteRequest
    | ClearRequest
    | DisplayRequest
    | StatusRequest
    | Decision
    | GroupRequest
    | ScopedRequest
)
