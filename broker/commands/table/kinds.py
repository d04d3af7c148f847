"""The kinds of objects that commands make and show: their name spaces, their templates, the replies about them."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.names.definitions import QUEUE_KINDS


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """The texts and codes of replies about a kind of object.

    `template` is the object whose attributes DEFINE takes by default; `space` the name space. A code is empty where the
    command does not exist.
    """

    noun: str
    space: str
    title: str
    template: str
    created: str
    changed: str
    deleted: str


KINDS = {
    kind.noun: kind
    for kind in (
        ObjectKind("QLOCAL", "QUEUE", "queue", "SYSTEM.DEFAULT.LOCAL.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QALIAS", "QUEUE", "queue", "SYSTEM.DEFAULT.ALIAS.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QREMOTE", "QUEUE", "queue", "SYSTEM.DEFAULT.REMOTE.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QMODEL", "QUEUE", "queue", "SYSTEM.DEFAULT.MODEL.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("PROCESS", "PROCESS", "process", "SYSTEM.DEFAULT.PROCESS", "AMQ8010I", "AMQ8012I", "AMQ8011I"),
        ObjectKind("CFSTRUCT", "CFSTRUCT", "CF structure", "", "EMQ0007I", "EMQ0008I", "EMQ0009I"),
        ObjectKind("QMGR", "QMGR", "queue manager", "", "", "AMQ8005I", ""),
    )
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The scope of DISPLAY of a noun: a name space, the kinds in it, and the heading of each object."""

    space: str
    kinds: tuple[str, ...]
    code: str
    heading: str


SHOWN = {
    "QUEUE": Shown("QUEUE", QUEUE_KINDS, "AMQ8409I", "Display Queue details."),
    **{kind: Shown("QUEUE", (kind,), "AMQ8409I", "Display Queue details.") for kind in QUEUE_KINDS},
    "PROCESS": Shown("PROCESS", ("PROCESS",), "AMQ8407I", "Display Process details."),
    "CFSTRUCT": Shown("CFSTRUCT", ("CFSTRUCT",), "EMQ0010I", "Display CFSTRUCT details."),
    "QMGR": Shown("QMGR", ("QMGR",), "AMQ8408I", "Display Queue Manager details."),
}
