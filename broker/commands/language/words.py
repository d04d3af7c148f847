"""The vocabulary of both languages: verbs, nouns, their short forms, and the options that are not attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.language.options import ENTITY_RIGHTS_OPTIONS, FILTERS, OPTIONS
from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag
from broker.commands.table.kinds import SHOWN
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.statuses import STATUSES
from broker.core.names.definitions import QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.commands.language.options import CommandOption
    from broker.commands.language.syntax import Parameter

VERBS = {
    "ALTER": "ALTER", "ALT": "ALTER",
    "BACKUP": "BACKUP",
    "CLEAR": "CLEAR",
    "DEFINE": "DEFINE", "DEF": "DEFINE",
    "DELETE": "DELETE", "DEL": "DELETE",
    "DISPLAY": "DISPLAY", "DIS": "DISPLAY",
    "MOVE": "MOVE",
    "REFRESH": "REFRESH", "REF": "REFRESH",
    "RECOVER": "RECOVER", "REC": "RECOVER",
    "RESET": "RESET",
    "RESOLVE": "RESOLVE", "RES": "RESOLVE",
    "SET": "SET",
    "START": "START", "STA": "START",
    "STOP": "STOP",
}  # fmt: skip

NOUNS = {
    "AUTHINFO": "AUTHINFO",
    "AUTHREC": "AUTHREC",
    "CFSTATUS": "CFSTATUS",
    "CFSTRUCT": "CFSTRUCT",
    "CHANNEL": "CHANNEL", "CHL": "CHANNEL",
    "CHLAUTH": "CHLAUTH",
    "CONFIG": "CONFIG",
    "CONSUMER": "CONSUMER",
    "ENTAUTH": "ENTAUTH",
    "GROUP": "GROUP",
    "INDOUBT": "INDOUBT",
    "PROCESS": "PROCESS", "PRO": "PROCESS",
    "QALIAS": "QALIAS", "QA": "QALIAS",
    "QLOCAL": "QLOCAL", "QL": "QLOCAL",
    "QMGR": "QMGR",
    "QMODEL": "QMODEL", "QM": "QMODEL",
    "QREMOTE": "QREMOTE", "QR": "QREMOTE",
    "QSTATUS": "QSTATUS", "QS": "QSTATUS",
    "QUEUE": "QUEUE", "Q": "QUEUE",
    "SECURITY": "SECURITY",
    "SINK": "SINK",
    "THREAD": "THREAD",
    "USER": "USER",
}  # fmt: skip

NAMELESS = ("AUTHREC", "CONFIG", "ENTAUTH", "GROUP", "QMGR")
"""Nouns of which there is one."""

KEYWORDS = {"TARGQ": "TARGET"}
"""Other words for keywords of attributes."""

# What IBM MQ knows and this queue manager does not have.
VERBS_NOT_SUPPORTED = {
    "ARCHIVE": "ARCHIVE", "ARC": "ARCHIVE",
    "PING": "PING",
    "PURGE": "PURGE",
    "RESUME": "RESUME",
    "REVERIFY": "REVERIFY",
    "RVERIFY": "RVERIFY",
    "SUSPEND": "SUSPEND",
}  # fmt: skip
NOUNS_NOT_SUPPORTED = {
    **{noun: noun for noun in (
        "APSTATUS", "ARCHIVE", "AUTHSERV", "BSDS", "BUFFPOOL", "CHINIT", "CHSTATUS", "CLUSQMGR", "CLUSTER", "CMDSERV",
        "COMMINFO", "CONN", "DQM", "LISTENER", "LOG", "LSSTATUS", "MAXSMSGS", "NAMELIST", "POLICY", "PSID", "PUBSUB",
        "QCLUSTER", "QMSTATUS", "QSTATS", "SBSTATUS", "SERVICE", "SMDS", "SMDSCONN", "STGCLASS", "SUB", "SVSTATUS",
        "SYSTEM", "TCLUSTER", "TOPIC", "TOPICSTR", "TPIPE", "TPSTATUS", "TRACE", "USAGE",
    )},
    "CHS": "CHSTATUS", "LSTR": "LISTENER", "NL": "NAMELIST", "QC": "QCLUSTER",
    "STC": "STGCLASS",
}  # fmt: skip
COMMANDS_NOT_SUPPORTED = (
    ("DISPLAY", "SECURITY"), ("REFRESH", "QMGR"), ("RESET", "CHANNEL"), ("RESET", "QMGR"), ("RESOLVE", "CHANNEL"),
    ("START", "QMGR"), ("STOP", "QMGR"),
)  # fmt: skip
"""Of a verb and a noun that are both there."""
KEYWORDS_NOT_SUPPORTED = (
    # of queues
    "CLUSDATE", "CLUSINFO", "CLUSQMGR", "CLUSQT", "CLUSTIME", "QMID", "STGCLASS", "TPIPE",
    # of structures: what sizes and places shared message data sets
    "DSBLOCK", "DSBUFS", "DSEXPAND", "DSGROUP", "EXCLINT", "OFFLD1SZ", "OFFLD1TH", "OFFLD2SZ", "OFFLD2TH", "OFFLD3SZ",
    "OFFLD3TH", "OFFLOAD",
    # of the queue manager: on z/OS, and secrets
    "ACTCHL", "ADOPTCHK", "ADOPTMCA", "AUTHEVSC", "CERTQSGL", "CHIADAPS", "CHIDISPS", "CHISERVP",
    "DNSGROUP", "DNSWLM", "INITKEY", "KEYRPWD", "LSTRTMR", "LU62ARM",
    "LU62CHL", "LUGROUP", "LUNAME", "MAXCHL", "OPORTMAX", "OPORTMIN", "RCVTIME", "RCVTMIN", "RCVTTYPE", "SCYCASE",
    "SSLCRYP", "SSLTASKS", "TCPCHL", "TCPKEEP", "TCPNAME", "TCPSTACK", "TRAXSTR", "TRAXTBL",
)  # fmt: skip

_SECURITY_KINDS = ("USER", "AUTHINFO", "CHANNEL")
COMMANDS = {
    "ALTER": (*QUEUE_KINDS, "PROCESS", "CFSTRUCT", *_SECURITY_KINDS, "QMGR"),
    "BACKUP": ("CFSTRUCT",),
    "CLEAR": ("QLOCAL",),
    "DEFINE": (*QUEUE_KINDS, "PROCESS", "CFSTRUCT", *_SECURITY_KINDS),
    "DELETE": (*QUEUE_KINDS, "PROCESS", "CFSTRUCT", *_SECURITY_KINDS, "AUTHREC"),
    "DISPLAY": (
        "QUEUE", *QUEUE_KINDS, "PROCESS", "QMGR", "CFSTRUCT", *_SECURITY_KINDS, "CHLAUTH", "AUTHREC", "ENTAUTH",
        "CFSTATUS", "GROUP", "QSTATUS", "THREAD",
    ),
    "MOVE": ("QLOCAL",),
    "RECOVER": ("CFSTRUCT",),
    "REFRESH": ("CONFIG", "SECURITY"),
    "RESET": ("SINK", "CFSTRUCT"),
    "RESOLVE": ("CONSUMER", "INDOUBT"),
    "SET": ("AUTHREC", "CHLAUTH"),
    "START": ("CHANNEL",),
    "STOP": ("CHANNEL",),
}  # fmt: skip


# What can follow DISPLAY of a noun, besides the attributes that are to be shown.
DISPLAY_OPTIONS = {
    **dict.fromkeys(("QUEUE", *QUEUE_KINDS), ("ALL", "QSGDISP", "TYPE", "WHERE")),
    "PROCESS": ("ALL", "QSGDISP", "WHERE"),
    "QMGR": ("ALL",),
    "CFSTRUCT": ("ALL", "WHERE"),
    **{noun: ("ALL", "QSGDISP", *filters, "WHERE") for noun, filters in FILTERS.items()},
    "ENTAUTH": tuple(ENTITY_RIGHTS_OPTIONS),
    "CFSTATUS": ("ALL", "TYPE", "WHERE"),
    "GROUP": ("ALL", "WHERE"),
    "QSTATUS": ("ALL", "TYPE", "WHERE"),
    "THREAD": ("ALL", "QMNAME", "TYPE", "WHERE"),
}

# ZMQSC: verbs by any unambiguous start of three letters or more, the rest as it stands here.
ZMQSC_VERBS = ("ALTER", "DEFINE", "DELETE", "DISPLAY", "RESET", "RESOLVE", "START", "STOP")
ZMQSC_VERBS_NOT_SUPPORTED = ("DBREBUILD", "MIGRATE", "MOVE", "SWEEP", "TRACE")
ZMQSC_NOUNS = {
    "QL": "QLOCAL", "QA": "QALIAS", "QR": "QREMOTE", "PROCESS": "PROCESS", "QMGR": "QMGR",
    "CHL": "CHANNEL", "CONSUMER": "CONSUMER", "INDOUBT": "INDOUBT", "QSTATUS": "QSTATUS", "SINK": "SINK",
    "THREAD": "THREAD",
}  # fmt: skip
ZMQSC_NOUNS_NOT_SUPPORTED = ("MQP",)
ZMQSC_KEYWORDS_NOT_SUPPORTED = ("SWEEP",)
_ALTERABLE = (
    "DEFPSIST", "GET", "MAXDEPTH", "MAXMSGL", "NOTRIGGER", "PROCESS", "PUT", "QDEPTHHI", "SWEEP", "TRIGDATA",
    "TRIGGER", "TRIGTYPE",
)  # fmt: skip
_ALIAS_KEYWORDS = ("DEFPSIST", "GET", "PUT", "TARGET", "TARGQ")
_REMOTE_KEYWORDS = ("DEFPSIST", "PUT", "RNAME", "RQMNAME", "XMITQ")
_PROCESS_KEYWORDS = ("APPLICID", "ENVRDATA", "USERDATA")
ZMQSC_KEYWORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("DEFINE", "QL"): ("COMMON", "USAGE", *_ALTERABLE),
    ("ALTER", "QL"): _ALTERABLE,
    ("DELETE", "QL"): (),
    ("DISPLAY", "QL"): (),
    ("DEFINE", "QA"): _ALIAS_KEYWORDS,
    ("ALTER", "QA"): _ALIAS_KEYWORDS,
    ("DELETE", "QA"): (),
    ("DISPLAY", "QA"): (),
    ("DEFINE", "QR"): _REMOTE_KEYWORDS,
    ("ALTER", "QR"): _REMOTE_KEYWORDS,
    ("DELETE", "QR"): (),
    ("DISPLAY", "QR"): (),
    ("DEFINE", "PROCESS"): _PROCESS_KEYWORDS,
    ("ALTER", "PROCESS"): _PROCESS_KEYWORDS,
    ("DELETE", "PROCESS"): (),
    ("DISPLAY", "PROCESS"): (),
    ("DISPLAY", "CHL"): (),
    ("START", "CHL"): (),
    ("STOP", "CHL"): ("MODE",),
    ("DISPLAY", "QMGR"): (),
    ("DISPLAY", "QSTATUS"): ("TYPE",),
    ("DISPLAY", "THREAD"): ("QMNAME", "TYPE"),
    ("RESET", "SINK"): (),
    ("RESOLVE", "CONSUMER"): ("ACTION", "PINNED"),
    ("RESOLVE", "INDOUBT"): ("ACTION", "QMNAME"),
}

_FIRST_WORDS = re.compile(r"[\s,]*([A-Za-z]+)(?:[\s,]+([A-Za-z]+))?")
_ZMQSC = re.compile(r"\s*ZMQSC(?!\S)", re.IGNORECASE)


def is_zmqsc(text: str) -> bool:
    """True if this is a command of TPF's language."""
    return _ZMQSC.match(text) is not None


def zmqsc_verb(word: str) -> str | None:
    """The verb that the word begins, when it is the only one."""
    verbs = [verb for verb in ZMQSC_VERBS + ZMQSC_VERBS_NOT_SUPPORTED if verb.startswith(word)]
    return verbs[0] if len(verbs) == 1 and len(word) >= 3 else None


def not_supported(text: str) -> errors.CommandError | None:
    """The answer to an MQSC command whose verb, or whose noun, IBM MQ knows and this queue manager does not have."""
    match = _FIRST_WORDS.match(text)
    verb_word, noun_word = ((word or "").upper() for word in (match.groups() if match else ("", "")))
    noun = NOUNS_NOT_SUPPORTED.get(noun_word, "")
    if (VERBS.get(verb_word), NOUNS.get(noun_word)) in COMMANDS_NOT_SUPPORTED:
        noun = NOUNS[noun_word]
    if verb_word in VERBS_NOT_SUPPORTED:
        return errors.not_supported(f"{VERBS_NOT_SUPPORTED[verb_word]} {noun or NOUNS.get(noun_word, '')}".rstrip())
    return errors.not_supported(f"{VERBS[verb_word]} {noun}") if verb_word in VERBS and noun else None


def syntax_error(text: str, end: int, hint: str = "") -> errors.CommandError:
    """AMQ8405I for a command whose first token that does not fit ends at `end`, with advice on what would."""
    advice = _advice(text)
    return errors.segment_error(text[:end], f"{hint}\n{advice}" if hint else advice)


def keyword_error(text: str, parameter: Parameter, kinds: Sequence[str], options: Iterable[str]) -> errors.CommandError:
    """Return the error of a command that takes no such keyword. Its attributes are those of `kinds`, none when it takes
    no attributes; `options` are the keywords that are no attributes.
    """
    word = parameter.keyword
    keyword = KEYWORDS.get(word, word.removeprefix("NO") if word.removeprefix("NO") in _ATTRIBUTES else word)
    if any(keyword in TABLE[kind] for kind in kinds):
        return syntax_error(text, parameter.end, f"{word} cannot be given here.")
    if word in KEYWORDS_NOT_SUPPORTED:
        return errors.not_supported(word)
    if keyword in _ATTRIBUTES:
        owners = ", ".join(kind for kind, rows in TABLE.items() if keyword in rows)
        return syntax_error(text, parameter.end, f"{word} is an attribute of {owners} and cannot be given here.")
    known = {each for kind in kinds for row in TABLE[kind].values() for each in _words_of(row)}
    return syntax_error(text, parameter.end, errors.did_you_mean(word, sorted(known.union(options))))


_ATTRIBUTES = {keyword for rows in TABLE.values() for keyword in rows}


def _words_of(row: Attribute) -> tuple[str, ...]:
    return (row.keyword, f"NO{row.keyword}") if isinstance(row.form, Flag) else (row.keyword,)


def _advice(text: str) -> str:
    if _ZMQSC.match(text):
        return f"AMQ8427I: Valid syntax for the ZMQSC command:\n{_zmqsc_usage(text)}"
    match = _FIRST_WORDS.match(text)
    verb_word, noun_word = match.groups() if match else (None, None)
    verb = VERBS.get((verb_word or "").upper())
    if verb is None:
        return "AMQ8426I: Valid MQSC commands are:\n" + "\n".join(f"    {word}" for word in COMMANDS)
    noun = NOUNS.get((noun_word or "").upper(), "")
    usage = usage_of(verb, noun) if noun in COMMANDS[verb] else f"{verb} {' | '.join(COMMANDS[verb])}"
    return f"AMQ8427I: Valid syntax for the MQSC command:\n    {usage}"


def usage_of(verb: str, noun: str) -> str:
    """Return one line that shows what can be written after this verb and noun."""
    subject = (
        f"{verb} {noun}" if noun in NAMELESS else f"{verb} {noun}({'name' if verb != 'DISPLAY' else 'generic-name'})"
    )
    where = "[WHERE(keyword operator value)]"
    if verb == "DISPLAY" and noun not in SHOWN:
        types = [(type, status) for (each, type), status in STATUSES.items() if each == noun]
        return " ".join(
            f"{subject}{f' TYPE({type})' if type else ''} {where} [ALL | {' | '.join(status.figures)}]"
            for type, status in types
        )
    if verb == "DISPLAY":
        keywords = dict.fromkeys(keyword for kind in SHOWN[noun].kinds for keyword in TABLE[kind])
        where = f" {where}" if "WHERE" in DISPLAY_OPTIONS[noun] else ""
        return f"{subject}{where} [ALL | {' | '.join(keywords)}]"
    options = [_option_usage(keyword, option) for keyword, option in OPTIONS[verb, noun].items()]
    given = TABLE[noun].values() if verb in ("DEFINE", "ALTER") else ()
    attributes = [_attribute_usage(row) for row in given if row.origin is Origin.GIVEN]
    return " ".join([subject, *options, *attributes])


def _attribute_usage(row: Attribute) -> str:
    return f"[{row.keyword} | NO{row.keyword}]" if isinstance(row.form, Flag) else f"[{row.keyword}( )]"


def _option_usage(keyword: str, option: CommandOption) -> str:
    if option.value is not None:
        return f"[{keyword}]"
    return f"[{keyword}({option.form.syntax if option.form else 'name'})]"


def _zmqsc_usage(text: str) -> str:
    """The commands of the verb that the text has, or all if it has none; a line each."""
    words = _ZMQSC.sub("", text, count=1).split(maxsplit=1)
    meant = zmqsc_verb(words[0].upper()) if words else None
    lines = []
    for (verb, noun), keywords in ZMQSC_KEYWORDS.items():
        if meant in (verb, None):
            subject = noun if noun == "QMGR" else f"{noun}-name"
            supported = (f"[{keyword}]" for keyword in keywords if keyword not in ZMQSC_KEYWORDS_NOT_SUPPORTED)
            lines.append(" ".join([f"    ZMQSC {verb} {subject}", *supported]))
    return "\n".join(lines)
