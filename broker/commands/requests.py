"""Commands as requests, once their words are understood: nothing here depends on the queue manager's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from broker.commands.table.dispositions import LIVE, UNSAID
from broker.core.names.definitions import OWN
from broker.core.security.facts import Principal

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
    """DELETE: `purge` gives up a queue's messages; with `ignore_state` it is a success if there is no such object;
    `records`: the authority records of that exact name go with it.
    """

    kind: str
    name: str
    purge: bool = False
    ignore_state: bool = False
    disposition: int = UNSAID
    records: bool = True


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """CLEAR QLOCAL."""

    name: str
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class DisplayRequest:
    """DISPLAY of the objects of a noun whose names fit `pattern`, of these kinds, for which the condition holds.

    `keywords` are the attributes named; `everything` asks for all. `types` are those of kinds that have types, all if
    there are none; `chosen` tells which records are meant.
    """

    noun: str
    pattern: str
    kinds: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    condition: Condition | None = None
    everything: bool = False
    tpf: bool = False
    disposition: int = LIVE
    types: tuple[int, ...] = ()
    chosen: RecordChoice | RuleChoice | None = None


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Authority records: on a type of object, for a profile, of an entity; None where any will do. `match` is PROFILE,
    EXACT or MEMBERSHIP.
    """

    profile: str | None = None
    object_type: int | None = None
    entity: Entity | None = None
    match: str = "PROFILE"


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """Channel authentication records whose profile has to do with a name: `match` is EXACT, GENERIC or ALL."""

    match: str = "GENERIC"


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


Entity: TypeAlias = tuple[Principal, str]
"""A user or a group by its name."""


@dataclass(frozen=True, slots=True)
class SetRecordsRequest:
    """SET AUTHREC: words for rights are added to and removed from the records of entities. `service_component`: it is
    named, which means nothing here.
    """

    profile: str
    object_type: int
    entities: tuple[Entity, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    service_component: bool = False
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    """DELETE AUTHREC."""

    profile: str
    object_type: int
    entities: tuple[Entity, ...]
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class SetRuleRequest:
    """SET CHLAUTH: `action` is ADD, REPLACE, REMOVE or REMOVEALL."""

    action: str
    given: Attributes
    disposition: int = UNSAID


@dataclass(frozen=True, slots=True)
class RunCheckRequest:
    """DISPLAY CHLAUTH MATCH(RUNCHECK): the record that counts for a client with these properties."""

    channel: str
    address: str
    peer: str = ""
    issuer: str = ""
    client_user: str = ""
    q_mgr_name: str = ""


@dataclass(frozen=True, slots=True)
class EntityRightsRequest:
    """DISPLAY ENTAUTH: the rights that an entity has on an object, by all records together."""

    entity: Entity
    object_type: int
    name: str


@dataclass(frozen=True, slots=True)
class RefreshSecurityRequest:
    """REFRESH SECURITY: `type` is AUTHSERV, CONNAUTH or SSL."""

    type: str


@dataclass(frozen=True, slots=True)
class StartChannelRequest:
    """START CHANNEL: clients may connect by it again."""

    name: str


@dataclass(frozen=True, slots=True)
class StopChannelRequest:
    """STOP CHANNEL: the lines that came by it end, of those from an address alone if one is given. With `status`
    INACTIVE others may come; `mode` is QUIESCE, FORCE or TERMINATE.
    """

    name: str
    mode: str = "QUIESCE"
    status: str = "STOPPED"
    address: str = ""


SecurityRequest: TypeAlias = (
    RunCheckRequest | EntityRightsRequest | RefreshSecurityRequest | StartChannelRequest | StopChannelRequest
)
"""Requests about what judges and what runs, which no change of definitions carries out."""
SECURITY_REQUESTS = (
    RunCheckRequest, EntityRightsRequest, RefreshSecurityRequest, StartChannelRequest, StopChannelRequest,
)  # fmt: skip

SECURITY_QUESTIONS = (RunCheckRequest, EntityRightsRequest)
"""Those of them that only ask."""


@dataclass(frozen=True, slots=True)
class RefreshConfigRequest:
    """REFRESH CONFIG: the daemon reads its configuration again, and takes over what can change while it runs."""


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
    | SetRecordsRequest
    | DeleteRecordsRequest
    | SetRuleRequest
    | SecurityRequest
    | RefreshConfigRequest
    | Decision
    | GroupRequest
    | ScopedRequest
)
