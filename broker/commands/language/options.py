"""The options of commands: keywords that are no attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.commands.table.authority_records import OBJECT_TYPES, RightWord
from broker.commands.table.channel_rules import RULE_TYPES
from broker.commands.table.channels import CHANNEL_TYPES, CLIENT
from broker.commands.table.dispositions import OF_OBJECT, OF_SECURITY, TO_ALTER, TO_CLEAR
from broker.commands.table.forms import ListOf, Name, Text, WordChoice
from broker.commands.table.users import AUTHENTICATION_TYPES, EntityName
from broker.core.names.definitions import QUEUE_KINDS

if TYPE_CHECKING:
    from broker.commands.table.forms import ValueForm


class CommandOption(NamedTuple):
    """A keyword that is no attribute. `setting` is what it decides; `value` what it means when it stands alone.

    With `form` it takes a value of that form in parentheses; with neither it takes the name of an object.
    """

    setting: str
    value: bool | None = None
    form: ValueForm | None = None


YES_NO = WordChoice({"NO": 0, "YES": 1})
DEFINE_STRUCTURE_OPTIONS = {
    "LIKE": CommandOption("LIKE"),
    "REPLACE": CommandOption("REPLACE", value=True),
    "NOREPLACE": CommandOption("REPLACE", value=False),
}
DISPOSITION_OPTION = {"QSGDISP": CommandOption("QSGDISP", form=OF_OBJECT)}
ALTER_DISPOSITION_OPTION = {"QSGDISP": CommandOption("QSGDISP", form=TO_ALTER)}
DEFINE_OPTIONS = {**DEFINE_STRUCTURE_OPTIONS, **DISPOSITION_OPTION}
_SECURITY_DISPOSITION = {"QSGDISP": CommandOption("QSGDISP", form=OF_SECURITY)}
_DEFINE_SECURITY_OPTIONS = {**DEFINE_STRUCTURE_OPTIONS, **_SECURITY_DISPOSITION}
ACTION_OPTION = {"ACTION": CommandOption("ACTION", form=WordChoice({"BACKOUT": 0, "COMMIT": 1}))}
FORCE_OPTION = {"FORCE": CommandOption("FORCE", value=True)}
IGNORE_STATE_OPTION = {"IGNSTATE": CommandOption("IGNSTATE", form=YES_NO)}
DELETE_QUEUE_OPTIONS = {
    "AUTHREC": CommandOption("AUTHREC", form=YES_NO),
    **IGNORE_STATE_OPTION,
    **DISPOSITION_OPTION,
}
DELETE_LOCAL_OPTIONS = {
    "PURGE": CommandOption("PURGE", value=True),
    "NOPURGE": CommandOption("PURGE", value=False),
    **DELETE_QUEUE_OPTIONS,
}
MATCHES = WordChoice({"PROFILE": 0, "EXACT": 1, "MEMBERSHIP": 2})
RULE_MATCHES = WordChoice({"EXACT": 1, "GENERIC": 0, "ALL": 2, "RUNCHECK": 3})
ACTIONS = WordChoice({"ADD": 0, "REPLACE": 1, "REMOVE": 2, "REMOVEALL": 3})
REFRESHED = WordChoice({"AUTHSERV": 0, "CONNAUTH": 1, "SSL": 2})
MODES = WordChoice({"QUIESCE": 0, "FORCE": 1, "TERMINATE": 2})
STOPPED = WordChoice({"STOPPED": 0, "INACTIVE": 1})
ANY = {"ALL": 0}
_ENTITY = EntityName()
_ENTITIES = ListOf(_ENTITY, 1000)
_SERVICE_OPTION = {"SERVCOMP": CommandOption("SERVCOMP", form=Text(48))}
_RECORD_OPTIONS = {
    "PROFILE": CommandOption("PROFILE", form=Text(48)),
    "OBJTYPE": CommandOption("OBJTYPE", form=WordChoice(OBJECT_TYPES)),
    "PRINCIPAL": CommandOption("PRINCIPAL", form=_ENTITIES),
    "GROUP": CommandOption("GROUP", form=_ENTITIES),
    **_SERVICE_OPTION,
    **_SECURITY_DISPOSITION,
}
_RIGHTS = ListOf(RightWord(), 64)
_DELETE_OPTIONS = {"AUTHREC": CommandOption("AUTHREC", form=YES_NO), **IGNORE_STATE_OPTION, **_SECURITY_DISPOSITION}
_DEFINE_USER_OPTIONS = {**_DEFINE_SECURITY_OPTIONS, "LIKE": CommandOption("LIKE", form=_ENTITY)}
CHANNEL_TABLES = WordChoice({"QMGRTBL": 1, "CLNTTAB": 2})
_OF_ENTITY = {"PRINCIPAL": CommandOption("PRINCIPAL", form=_ENTITY), "GROUP": CommandOption("GROUP", form=_ENTITY)}

FILTERS: dict[str, dict[str, CommandOption]] = {
    "USER": {},
    "AUTHINFO": {"AUTHTYPE": CommandOption("TYPE", form=WordChoice({**ANY, **AUTHENTICATION_TYPES}))},
    "CHANNEL": {
        word: CommandOption("TYPE", form=WordChoice({**ANY, **CHANNEL_TYPES, "CLNTCONN": CLIENT}))
        for word in ("CHLTYPE", "TYPE")
    },
    "CHLAUTH": {
        "TYPE": CommandOption("TYPE", form=WordChoice({**ANY, **RULE_TYPES})),
        "MATCH": CommandOption("MATCH", form=RULE_MATCHES),
        "ADDRESS": CommandOption("ADDRESS", form=Text(264)),
        "SSLPEER": CommandOption("SSLPEER", form=Text(1024)),
        "SSLCERTI": CommandOption("SSLCERTI", form=Text(1024)),
        "CLNTUSER": CommandOption("CLNTUSER", form=Text(64)),
        "QMNAME": CommandOption("QMNAME", form=Name()),
    },
    "AUTHREC": {
        "PROFILE": CommandOption("PROFILE", form=Text(48)),
        "OBJTYPE": CommandOption("OBJTYPE", form=WordChoice({**ANY, **OBJECT_TYPES})),
        **_OF_ENTITY,
        "MATCH": CommandOption("MATCH", form=MATCHES),
        **_SERVICE_OPTION,
    },
}
"""Keywords of DISPLAY that choose by the value in their parentheses."""

ENTITY_RIGHTS_OPTIONS = {
    **_OF_ENTITY,
    "OBJNAME": CommandOption("OBJNAME", form=Text(48)),
    "OBJTYPE": CommandOption("OBJTYPE", form=WordChoice(OBJECT_TYPES)),
    **_SERVICE_OPTION,
    "ALL": CommandOption("ALL", value=True),
}

OPTIONS: dict[tuple[str, str], dict[str, CommandOption]] = {
    **{("DEFINE", kind): DEFINE_OPTIONS for kind in (*QUEUE_KINDS, "PROCESS")},
    ("DEFINE", "CFSTRUCT"): DEFINE_STRUCTURE_OPTIONS,
    **{("ALTER", kind): {**FORCE_OPTION, **ALTER_DISPOSITION_OPTION} for kind in ("QLOCAL", "QALIAS", "QREMOTE")},
    ("ALTER", "QMGR"): FORCE_OPTION,
    ("ALTER", "QMODEL"): ALTER_DISPOSITION_OPTION,
    ("ALTER", "PROCESS"): ALTER_DISPOSITION_OPTION,
    ("ALTER", "CFSTRUCT"): {},
    ("BACKUP", "CFSTRUCT"): {},
    **{("DELETE", kind): DELETE_QUEUE_OPTIONS for kind in ("QALIAS", "QREMOTE", "QMODEL")},
    ("DELETE", "QLOCAL"): DELETE_LOCAL_OPTIONS,
    ("DELETE", "PROCESS"): DELETE_QUEUE_OPTIONS,
    ("DELETE", "CFSTRUCT"): IGNORE_STATE_OPTION,
    **{("DEFINE", kind): _DEFINE_SECURITY_OPTIONS for kind in ("AUTHINFO", "CHANNEL", "CLNTCONN")},
    ("DEFINE", "USER"): _DEFINE_USER_OPTIONS,
    **{("ALTER", kind): _SECURITY_DISPOSITION for kind in ("USER", "AUTHINFO", "CHANNEL", "CLNTCONN")},
    ("DELETE", "USER"): {**IGNORE_STATE_OPTION, **_SECURITY_DISPOSITION},
    ("DELETE", "AUTHINFO"): _DELETE_OPTIONS,
    **{
        ("DELETE", kind): {"CHLTABLE": CommandOption("CHLTABLE", form=CHANNEL_TABLES), **_DELETE_OPTIONS}
        for kind in ("CHANNEL", "CLNTCONN")
    },
    ("DELETE", "AUTHREC"): _RECORD_OPTIONS,
    ("DISPLAY", "ENTAUTH"): ENTITY_RIGHTS_OPTIONS,
    ("REFRESH", "CONFIG"): {},
    ("REFRESH", "SECURITY"): {"TYPE": CommandOption("TYPE", form=REFRESHED)},
    ("SET", "AUTHREC"): {
        **_RECORD_OPTIONS,
        "AUTHADD": CommandOption("AUTHADD", form=_RIGHTS),
        "AUTHRMV": CommandOption("AUTHRMV", form=_RIGHTS),
    },
    ("SET", "CHLAUTH"): {"ACTION": CommandOption("ACTION", form=ACTIONS), **_SECURITY_DISPOSITION},
    ("START", "CHANNEL"): IGNORE_STATE_OPTION,
    ("STOP", "CHANNEL"): {
        "MODE": CommandOption("MODE", form=MODES),
        "STATUS": CommandOption("STATUS", form=STOPPED),
        "CONNAME": CommandOption("CONNAME", form=Text(264)),
        "QMNAME": CommandOption("QMNAME", form=Name()),
        **IGNORE_STATE_OPTION,
    },
    ("CLEAR", "QLOCAL"): {"QSGDISP": CommandOption("QSGDISP", form=TO_CLEAR)},
    ("MOVE", "QLOCAL"): {
        "QSGDISP": CommandOption("QSGDISP", form=TO_CLEAR),
        "TOQLOCAL": CommandOption("TOQLOCAL"),
        "TYPE": CommandOption("TYPE", form=WordChoice({"MOVE": 0, "ADD": 1})),
    },
    ("RECOVER", "CFSTRUCT"): {"TYPE": CommandOption("TYPE", form=WordChoice({"NORMAL": 0, "PURGE": 1}))},
    ("RESET", "SINK"): {},
    ("RESET", "CFSTRUCT"): {"ACTION": CommandOption("ACTION", form=WordChoice({"FAIL": 1}))},
    ("RESOLVE", "CONSUMER"): {**ACTION_OPTION, "PINNED": CommandOption("PINNED", form=YES_NO)},
    ("RESOLVE", "INDOUBT"): {**ACTION_OPTION, "QMNAME": CommandOption("QMNAME")},
}
