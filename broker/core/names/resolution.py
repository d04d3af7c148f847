"""Name resolution: from the two names of MQOD to the queue where messages go (semantics 9.4).

ObjectQMgrName is resolved first. The outcome is a path: the names of the definitions that were gone through, the last
of them a local queue, where messages stay or, for a queue of another queue manager, await transmission. Only
definitions are looked at; nothing is opened here, and no dynamic queue made. The names of a reply-to queue are resolved
when a message is put.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.names.sharing_group import TRANSMISSION_QUEUE, ignores_q_mgr_name, uses_igq
from broker.mqi.constants.attribute_values import MQUS
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.names import is_name
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.core.names.definitions import Definition
    from broker.core.names.sharing_group import SharingGroup

Definitions: TypeAlias = "Mapping[tuple[str, str], Definition]"

_TRANSMISSION = MQUS.TRANSMISSION.value
_TOPIC = MQOT.TOPIC.value
_INPUT_BROWSE_SET = (
    MQOO.INPUT_AS_Q_DEF | MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE | MQOO.BROWSE | MQOO.SET
).value  # fmt: skip
_INQUIRE = MQOO.INQUIRE.value

DIRECTIONS = {
    "QALIAS": ("TARGET", "TARGTYPE"),
    "QREMOTE": ("RNAME", "RQMNAME", "XMITQ"),
    "QLOCAL": ("USAGE",),
    "QMGR": ("DEFXMITQ",),
}
"""The attributes that decide where a name leads, by kind of object."""


class UnknownNameError(MQError):
    """No definition of this name is known here. In a queue-sharing group another member may have made one."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The queue that a name leads to. `path` holds names of queue definitions, the one that was named first and the
    local queue last; for a model queue, its name alone.

    `remote`: the local queue is the transmission queue to `q_mgr_name`. `by_default`: it is the queue manager's default
    one. `by_alias`: ObjectQMgrName was a queue manager alias. `intra_group`: the transmission queue is that of
    intra-group queuing; a message too long for it goes by `transmission`, or where that is empty by the one that is
    found for `q_mgr_name` (`conventional`).
    """

    path: tuple[str, ...]
    q_name: str
    q_mgr_name: str
    model: bool = False
    remote: bool = False
    by_default: bool = False
    by_alias: bool = False
    intra_group: bool = False
    transmission: str = ""


class _Reasons(NamedTuple):
    """The reasons for a bad name of a transmission queue: nothing is there, not a local queue, not its usage."""

    unknown: MQRC
    kind: MQRC
    usage: MQRC


_NAMED = _Reasons(MQRC.UNKNOWN_XMIT_Q, MQRC.XMIT_Q_TYPE_ERROR, MQRC.XMIT_Q_USAGE_ERROR)
_DEFAULT = _Reasons(MQRC.UNKNOWN_DEF_XMIT_Q, MQRC.DEF_XMIT_Q_TYPE_ERROR, MQRC.DEF_XMIT_Q_USAGE_ERROR)


def resolve(
    definitions: Definitions,
    manager: Definition,
    object_name: str,
    q_mgr_name: str,
    group: SharingGroup | None = None,
) -> Resolution:
    """Return the resolution of these names on the queue manager with this definition, a member of `group` or of none.
    Raises UNKNOWN_OBJECT_NAME (2085), UNKNOWN_REMOTE_Q_MGR (2087) and their kin (semantics 9.3); DB2_NOT_AVAILABLE
    (2342) for a name that may be one of the group, which is away (queue-sharing 8).
    """
    return _Resolver(definitions, manager, group).resolve(object_name, q_mgr_name)


def conventional(definitions: Definitions, manager: Definition, q_mgr_name: str, transmission: str) -> str:
    """The transmission queue to `q_mgr_name` for what does not go by intra-group queuing: the one that is named, or the
    one that is found. Raises UNKNOWN_REMOTE_Q_MGR (2087), UNKNOWN_XMIT_Q (2196) and their kin.
    """
    return _Resolver(definitions, manager, None).conventional(q_mgr_name, transmission)[0]


def check_options(name: str, found: Resolution, options: int) -> None:
    """Check that what the name leads to can be opened with these options (semantics 9.1, 9.4). Raises Q_TYPE_ERROR
    (2057), OPTION_NOT_VALID_FOR_TYPE (2045).
    """
    if found.model:
        raise MQError(MQRC.Q_TYPE_ERROR, f"{name} is a model queue, and this call makes no dynamic queue of it")
    own_definition = len(found.path) == 2 and not found.by_alias  # the name is that of the remote queue's definition
    only_output = found.by_alias or found.remote
    if only_output and (options & _INPUT_BROWSE_SET or (options & _INQUIRE and not own_definition)):
        raise MQError(
            MQRC.OPTION_NOT_VALID_FOR_TYPE,
            f"{name} leads to {found.q_name} of {found.q_mgr_name}: it can only be opened for output",
        )


def unknown(definitions: Definitions, q_mgr_name: str, name: str, space: str = "QUEUE") -> str:
    """Say why there is no such object: it does not exist, or only in upper case, as MQSC makes names without quotes."""
    what = "queue" if space == "QUEUE" else "process definition"
    found = name.upper() if (space, name.upper()) in definitions else ""
    return f"{q_mgr_name} has no {what} {name!r}" + (f": there is {found}; names are case-sensitive" if found else "")


def reply_to(definitions: Definitions, md: MessageDescriptor) -> MessageDescriptor:
    """The descriptor with its reply-to queue alias resolved; itself if it names none (semantics 1.3).

    Where ReplyToQMgr is blank, a local definition of a remote queue named ReplyToQ says what both are to be. One
    without RNAME is a queue manager alias and no queue's. Without RQMNAME the queue is one of this queue manager.
    """
    if not md.reply_to_q or md.reply_to_q_mgr:
        return md
    alias = definitions.get(("QUEUE", md.reply_to_q))
    if alias is None or alias.kind != "QREMOTE" or not alias.attributes["RNAME"]:
        return md
    resolved = MessageDescriptor.from_tuple(md.to_tuple())
    resolved.reply_to_q, resolved.reply_to_q_mgr = str(alias.attributes["RNAME"]), str(alias.attributes["RQMNAME"])
    return resolved


class _Resolver:
    """The definitions that one resolution looks at."""

    def __init__(self, definitions: Definitions, manager: Definition, group: SharingGroup | None) -> None:
        self._definitions = definitions
        self._manager = manager
        self._own_name = manager.name
        self._default_name = str(manager.attributes["DEFXMITQ"])
        self._group_name = "" if group is None else group.name
        self._away = group is not None and group.away
        self._members = frozenset[str]() if group is None else group.members

    def resolve(self, name: str, q_mgr_name: str) -> Resolution:
        """Both names: ObjectQMgrName decides whether ObjectName is looked up at all."""
        if q_mgr_name in ("", self._own_name, self._group_name):
            return self._here(name)
        if not is_name(q_mgr_name):
            raise MQError(MQRC.UNKNOWN_OBJECT_Q_MGR, f"{q_mgr_name!r} cannot be the name of a queue manager")
        found = self._find(q_mgr_name)
        if found is not None and found.kind == "QMODEL":
            raise MQError(MQRC.UNKNOWN_REMOTE_Q_MGR, f"{q_mgr_name} is a model queue, not a way to a queue manager")
        if found is not None and found.kind == "QREMOTE" and not found.attributes["RNAME"]:
            return self._by_alias(found, name)
        return self._there(name, q_mgr_name)

    def _here(self, name: str) -> Resolution:
        """A name of this queue manager's own."""
        found = self._find(name)
        if found is None:
            raise self._unknown(MQRC.UNKNOWN_OBJECT_NAME, unknown(self._definitions, self._own_name, name))
        if found.kind == "QALIAS":
            return self._base(found)
        if found.kind == "QREMOTE":
            return self._defined_remote(found)
        q_mgr_name = self._group_name if found.shared and self._group_name else self._own_name
        return Resolution((name,), name, q_mgr_name, model=found.kind == "QMODEL")

    def _unknown(self, reason: MQRC, why: str) -> MQError:
        """A name is not known here; perhaps it is in the group."""
        if not self._away:
            return UnknownNameError(reason, why)
        return MQError(
            MQRC.DB2_NOT_AVAILABLE,
            f"{why}; and what the queue-sharing group {self._group_name} has is not known, because its database cannot "
            "be reached: try again when it can",
        )

    def _base(self, alias: Definition) -> Resolution:
        """An alias queue: on to its base queue, which may be no alias itself."""
        target = str(alias.attributes["TARGET"])
        base = self._find(target)
        if base is None or alias.attributes["TARGTYPE"] == _TOPIC:
            why = unknown(self._definitions, self._own_name, target)
            why = f"the TARGET of {alias.name}, {target!r}, is not defined: {why}"
            if alias.attributes["TARGTYPE"] == _TOPIC:
                raise MQError(MQRC.UNKNOWN_ALIAS_BASE_Q, why)
            raise self._unknown(MQRC.UNKNOWN_ALIAS_BASE_Q, why)
        if base.kind in ("QALIAS", "QMODEL"):
            raise MQError(MQRC.ALIAS_BASE_Q_TYPE_ERROR, f"{target}, the TARGET of {alias.name}, is a {base.kind}")
        return _after(alias, self._here(target))

    def _defined_remote(self, remote: Definition) -> Resolution:
        """The local definition of a remote queue, opened by its own name or through an alias."""
        q_name, q_mgr_name = str(remote.attributes["RNAME"]), str(remote.attributes["RQMNAME"])
        if not q_name:
            raise MQError(MQRC.REMOTE_Q_NAME_ERROR, f"{remote.name} is a queue manager alias: it has no RNAME")
        self._check_remote(remote, q_mgr_name, or_own=False)
        return _after(remote, self._there(q_name, q_mgr_name, str(remote.attributes["XMITQ"])))

    def _by_alias(self, alias: Definition, name: str) -> Resolution:
        """A queue manager alias as ObjectQMgrName."""
        q_mgr_name = str(alias.attributes["RQMNAME"])
        self._check_remote(alias, q_mgr_name, or_own=True)
        if q_mgr_name == self._own_name:
            found = self._here(name)
        else:
            found = self._there(name, q_mgr_name, str(alias.attributes["XMITQ"]))
        return replace(_after(alias, found), by_alias=True)

    def _check_remote(self, definition: Definition, q_mgr_name: str, *, or_own: bool) -> None:
        if not q_mgr_name or (q_mgr_name == self._own_name and not or_own):
            raise MQError(MQRC.UNKNOWN_REMOTE_Q_MGR, f"RQMNAME({q_mgr_name}) of {definition.name} names no other one")

    def _there(self, name: str, q_mgr_name: str, transmission: str = "") -> Resolution:
        """A queue of another queue manager, by this transmission queue or the one that is found for it."""
        if not name:
            raise MQError(MQRC.REMOTE_Q_NAME_ERROR, f"ObjectName is blank, for a queue of {q_mgr_name}")
        if self._is_shared_here(name, q_mgr_name):
            return self._here(name)
        if q_mgr_name in self._members and uses_igq(self._manager):
            self._check_transmission(TRANSMISSION_QUEUE, _NAMED)
            return Resolution(
                (TRANSMISSION_QUEUE,), name, q_mgr_name, remote=True, intra_group=True, transmission=transmission
            )
        transmission, by_default = self.conventional(q_mgr_name, transmission)
        return Resolution((transmission,), name, q_mgr_name, remote=True, by_default=by_default)

    def _is_shared_here(self, name: str, q_mgr_name: str) -> bool:
        """True if this member shares the queue with the one named, or the name is the group's, so that it is opened
        here (queue-sharing 3).
        """
        found = self._find(name)
        if found is None or not found.shared:
            return False
        return q_mgr_name == self._group_name or (q_mgr_name in self._members and ignores_q_mgr_name(self._manager))

    def conventional(self, q_mgr_name: str, transmission: str) -> tuple[str, bool]:
        """Return the transmission queue to another queue manager, this one or the one that is found, and True if it is
        the default one.
        """
        if transmission:
            self._check_transmission(transmission, _NAMED)
            return transmission, False
        if _transmits(self._find(q_mgr_name)):
            return q_mgr_name, False
        if self._default_name:
            self._check_transmission(self._default_name, _DEFAULT)
            return self._default_name, True
        raise MQError(MQRC.UNKNOWN_REMOTE_Q_MGR, f"there is no route from {self._own_name} to {q_mgr_name}")

    def _check_transmission(self, name: str, reasons: _Reasons) -> None:
        found = self._find(name)
        if found is None:
            raise MQError(reasons.unknown, f"the transmission queue {name} is not defined")
        if found.kind != "QLOCAL":
            raise MQError(reasons.kind, f"{name} is to be a transmission queue, and is a {found.kind}")
        if not _transmits(found):
            raise MQError(reasons.usage, f"{name} is to be a transmission queue, and has USAGE(NORMAL)")

    def _find(self, name: str) -> Definition | None:
        return self._definitions.get(("QUEUE", name))


def _transmits(found: Definition | None) -> bool:
    return found is not None and found.kind == "QLOCAL" and found.attributes["USAGE"] == _TRANSMISSION


def _after(definition: Definition, rest: Resolution) -> Resolution:
    """The path that begins with this definition and goes on with the rest."""
    return replace(rest, path=(definition.name, *rest.path))
