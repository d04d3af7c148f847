"""The kinds of objects that commands make and show: their name spaces, their templates, the replies about them."""

from __future__ import annotations

from dataclasses import dataclass

from broker.core.names.definitions import QUEUE_KINDS


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """The texts and codes of replies about a kind of object.

    `template` is the object whose attributes DEFINE takes by default; `space` the name space. A code is empty where the
    command does not exist. `type` is the attribute that tells objects of the kind with different attributes apart: the
    template is of its default.
    """

    noun: str
    space: str
    title: str
    template: str
    created: str
    changed: str
    deleted: str
    type: str = ""


KINDS = {
    kind.noun: kind
    for kind in (
        ObjectKind("QLOCAL", "QUEUE", "queue", "SYSTEM.DEFAULT.LOCAL.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QALIAS", "QUEUE", "queue", "SYSTEM.DEFAULT.ALIAS.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QREMOTE", "QUEUE", "queue", "SYSTEM.DEFAULT.REMOTE.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("QMODEL", "QUEUE", "queue", "SYSTEM.DEFAULT.MODEL.QUEUE", "AMQ8006I", "AMQ8008I", "AMQ8007I"),
        ObjectKind("PROCESS", "PROCESS", "process", "SYSTEM.DEFAULT.PROCESS", "AMQ8010I", "AMQ8012I", "AMQ8011I"),
        ObjectKind("CFSTRUCT", "CFSTRUCT", "CF structure", "", "EMQ0007I", "EMQ0008I", "EMQ0009I"),
        ObjectKind("USER", "USER", "user", "", "EMQ0019I", "EMQ0020I", "EMQ0021I"),
        ObjectKind(
            "AUTHINFO",
            "AUTHINFO",
            "authentication information object",
            "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
            "AMQ8563I",
            "AMQ8567I",
            "AMQ8564I",
            "AUTHTYPE",
        ),
        ObjectKind(
            "CHANNEL",
            "CHANNEL",
            "channel",
            "SYSTEM.DEF.SVRCONN",
            "AMQ8014I",
            "AMQ8016I",
            "AMQ8015I",
            "CHLTYPE",
        ),
        ObjectKind("CLNTCONN", "CLNTCONN", "channel", "", "AMQ8014I", "AMQ8016I", "AMQ8015I", "CHLTYPE"),
        ObjectKind(
            "CHLAUTH",
            "CHLAUTH",
            "channel authentication record",
            "",
            "AMQ8877I",
            "AMQ8877I",
            "AMQ8877I",
            "TYPE",
        ),
        ObjectKind("AUTHREC", "AUTHREC", "authority record", "", "AMQ8862I", "AMQ8862I", "AMQ8863I"),
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
    more: tuple[str, ...] = ()  # name spaces that are shown too

    @property
    def spaces(self) -> tuple[str, ...]:
        """The name spaces."""
        return (self.space, *self.more)


SHOWN = {
    "QUEUE": Shown("QUEUE", QUEUE_KINDS, "AMQ8409I", "Display Queue details."),
    **{kind: Shown("QUEUE", (kind,), "AMQ8409I", "Display Queue details.") for kind in QUEUE_KINDS},
    "PROCESS": Shown("PROCESS", ("PROCESS",), "AMQ8407I", "Display Process details."),
    "CFSTRUCT": Shown("CFSTRUCT", ("CFSTRUCT",), "EMQ0010I", "Display CFSTRUCT details."),
    "USER": Shown("USER", ("USER",), "EMQ0022I", "Display user details."),
    "AUTHINFO": Shown("AUTHINFO", ("AUTHINFO",), "AMQ8566I", "Display authentication information details."),
    "CHANNEL": Shown("CHANNEL", ("CHANNEL", "CLNTCONN"), "AMQ8414I", "Display Channel details.", ("CLNTCONN",)),
    "CHLAUTH": Shown("CHLAUTH", ("CHLAUTH",), "AMQ8878I", "Display channel authentication record details."),
    "AUTHREC": Shown("AUTHREC", ("AUTHREC",), "AMQ8864I", "Display authority record details."),
    "QMGR": Shown("QMGR", ("QMGR",), "AMQ8408I", "Display Queue Manager details."),
}
